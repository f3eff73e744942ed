"""NumPy files: .npz and .npy, without pickle, every size checked before memory is taken."""

import io
import warnings
import zipfile
import zlib
from pathlib import Path

import numpy as np

from surefoot.errors import InputError
from surefoot.logs.rawbytes import LARGEST, file_bytes, one_line


def npz_arrays(path: Path) -> dict[str, np.ndarray]:
    """All arrays of an .npz file by name; raises InputError when it is not one, is damaged or holds objects."""
    data = file_bytes(path)
    arrays: dict[str, np.ndarray] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if sum(member.file_size for member in archive.infolist()) > LARGEST:
                raise InputError(f"{path} unpacks to more than {LARGEST >> 30} GiB")
            for member in archive.infolist():
                name = member.filename.removesuffix(".npy")
                if name in arrays:
                    raise InputError(f"{path} is damaged: it holds {name!r} twice")
                arrays[name] = npy_array(archive.read(member), f"{path}:{name}")
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise InputError(f"{path} is not a whole .npz file: {one_line(error)}") from None
    except (ValueError, KeyError, OverflowError, OSError, UnicodeError, MemoryError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is damaged: {one_line(error)}") from None
    if not arrays:
        raise InputError(f"{path} holds no arrays")
    return arrays


def npy_array(data: bytes, where: str) -> np.ndarray:
    """The array of an .npy file given as bytes; `where` names it in errors."""
    stream = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(stream)
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        if version not in read:
            raise InputError(f"{where} is an .npy file of version {version}: save it again with numpy.save")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NumPy evaluates the header as a literal, which may warn about its text.
            shape, fortran, dtype = read[version](stream)
    except InputError:
        raise
    except Exception as error:  # NumPy's header parser lets many kinds of errors through on damaged bytes.
        raise InputError(f"{where} is not an .npy array: {one_line(error)}") from None
    if dtype.hasobject:
        raise InputError(f"{where} holds Python objects, which are never unpickled: save plain numbers")
    body = len(data) - stream.tell()
    count = 1
    for length in shape:
        count *= length
    if count < 0 or dtype.itemsize == 0 or count * dtype.itemsize != body:
        raise InputError(f"{where} is cut or damaged: {body} bytes for {'x'.join(map(str, shape))} of {dtype}")
    array = np.frombuffer(data, dtype=dtype, offset=stream.tell(), count=count)
    return array.reshape(shape, order="F" if fortran else "C")

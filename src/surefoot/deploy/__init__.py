"""From a trained policy to one that runs on a robot: the bundle, its checks, and its other formats.

Loading and running a bundle needs numpy and onnxruntime alone; making one (`surefoot.deploy.export`,
`surefoot.deploy.ranges`, `surefoot.deploy.complete`) may need torch and mujoco, and is imported by its own path.
"""

from surefoot.deploy.bundle import Bundle as Bundle
from surefoot.deploy.bundle import load_bundle as load_bundle
from surefoot.deploy.bundle import shipped as shipped
from surefoot.deploy.onnx_policy import OnnxPolicy as OnnxPolicy

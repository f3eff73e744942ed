"""(t, u, y): recorded channels with names, units and clocks; readers and writers."""

from surefoot.logs.channel import Channel as Channel
from surefoot.logs.clocks import ClockOffset as ClockOffset
from surefoot.logs.clocks import align as align
from surefoot.logs.commands import convert as convert
from surefoot.logs.commands import info as info
from surefoot.logs.commands import info_table as info_table
from surefoot.logs.log import Log as Log
from surefoot.logs.mapping import FileMapping as FileMapping
from surefoot.logs.mapping import bundled as bundled
from surefoot.logs.mapping import load_mapping as load_mapping
from surefoot.logs.read import read_log as read_log
from surefoot.logs.read import read_logs as read_logs
from surefoot.logs.recording import Recorder as Recorder
from surefoot.logs.timing import Timing as Timing
from surefoot.logs.units import to_si as to_si

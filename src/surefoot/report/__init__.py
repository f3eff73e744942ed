"""One offline HTML file per question."""

from surefoot.report.page import Page as Page
from surefoot.report.png import encode_png as encode_png

__all__ = ["Page", "encode_png"]

"""What type checkers and editors see of the lazy module."""

from skdiffclust import cuts as cuts
from skdiffclust import datasets as datasets
from skdiffclust import forests as forests
from skdiffclust import gemini as gemini
from skdiffclust import inspection as inspection
from skdiffclust import memories as memories
from skdiffclust import metrics as metrics
from skdiffclust import model_selection as model_selection
from skdiffclust import nn as nn
from skdiffclust import plotting as plotting
from skdiffclust.cuts import GraphCutClustering as GraphCutClustering
from skdiffclust.cuts import PRCut as PRCut
from skdiffclust.forests import SpanningForestClustering as SpanningForestClustering
from skdiffclust.forests import SpanningForestEmbedding as SpanningForestEmbedding
from skdiffclust.forests._warmup import warmup as warmup
from skdiffclust.gemini import GEMINI as GEMINI
from skdiffclust.gemini import SparseGEMINI as SparseGEMINI
from skdiffclust.gemini import SparseGEMINICV as SparseGEMINICV
from skdiffclust.memories import AssociativeImputer as AssociativeImputer
from skdiffclust.memories import ClAM as ClAM
from skdiffclust.memories import DeepClAM as DeepClAM

__version__: str

def show_versions() -> None: ...

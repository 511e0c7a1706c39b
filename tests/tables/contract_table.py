"""The contract of all estimators: what one can do all can, or a reason why not."""

from functools import partial

import proven
from proven import COLUMNS, Dash, Table

NAMES = {**COLUMNS, "DeepClAM": "Deep ClAM"}
cells = partial(proven.cells, columns=NAMES)

HERE = "test_contract.py::"
SEARCH = "test_search.py::"
VALUES = "faults/test_values.py::"
RESUME = "test_checkpoint_resume.py::"
CHECK = "test_common.py::test_scikit_learn_check"
PREDICTS_NOTHING = Dash(
    "is a transformer: the clusterer or classifier after it predicts, and labels are y"
)
ONE_OF_A_PATH = Dash(
    "fits one penalty; SparseGEMINICV chooses the number of clusters, and path() "
    "writes checkpoints"
)
RESTARTS = Dash("its restarts take seconds, and partial_fit continues a training")
NOTHING_TRAINED = Dash(
    "nothing is trained: the tree is exact, and a new sample may change any edge of "
    "it; for data larger than memory there is minimum_spanning_tree_by_blocks"
)
NO_MODEL = Dash(
    "nothing is trained: the labels are those of a search, and PRCut trains a model"
)
CODES = Dash("another clusterer takes them, of the codes that it learns")
DEEP = "memories/test_deep.py::"
NO_OBJECTIVE = Dash("the objective is only defined for the training samples")
NO_TRANSFORM = Dash("has no transform")
NO_ENCODER = Dash("its model is the memories; DeepClAM has an encoder")
SECONDS = Dash("a fit takes seconds, and partial_fit continues; DeepClAM writes them")
OWN_LAYER = Dash("the penalty needs the weights of the first layer")
ALL_CODES = Dash("its rounds need the codes of all samples; checkpoints resume a fit")
WHOLE_PATHS = Dash("a path needs all samples at once")
NO_WEIGHTS = Dash(
    "its loss is a function of pairs of samples, for which weights of samples are not "
    "defined"
)
ROWS = {
    "sparse X in float32 and float64, 64-bit indices, Euclidean": cells(
        HERE + "test_sparse_samples"
    ),
    "sparse X, cosine": cells(
        HERE + "test_sparse_samples_by_cosines",
        DeepClAM=Dash("its codes are compared by Euclidean distances"),
    ),
    "square sparse X as features": cells(
        HERE + "test_a_square_sparse_x_is_features",
    ),
    "``sample_weight``": cells(
        CHECK,
        ClAM=HERE + "test_weights_are_repeats_in_loss_and_gradient",
        GraphCutClustering="cuts/test_graph_cut.py::"
        "test_on_one_graph_a_weight_of_two_is_a_repetition",
        PRCut="cuts/test_prcut.py::test_samples_without_weight_have_a_finite_ratio_cut",
        SparseGEMINICV=HERE + "test_weights_are_taken",
        SpanningForestEmbedding=NO_WEIGHTS,
        DeepClAM=DEEP + "test_rows_of_no_weight_are_not_there",
    ),
    "``partial_labels`` or ``y``, integers or strings": cells(
        HERE + "test_labels_of_some", DeepClAM=CODES
    ),
    "``must_link``, ``cannot_link``": cells(HERE + "test_links", DeepClAM=CODES),
    '``n_clusters="auto"``, with a warning if it is not clear': cells(
        SpanningForestClustering="forests/test_spanning_forest.py::"
        "test_no_clear_structure_is_a_warning",
        ClAM=HERE + "test_number_of_clusters",
        GraphCutClustering="cuts/test_choice.py::"
        "test_samples_without_clusters_are_warned_of",
        PRCut="cuts/test_choice.py::test_a_stream_keeps_the_number_that_was_chosen",
        GEMINI=HERE + "test_number_of_clusters",
        SparseGEMINI=ONE_OF_A_PATH,
        SparseGEMINICV="gemini/test_sparse_gemini_cv.py::"
        "test_the_number_is_found_with_the_features",
        SpanningForestEmbedding=PREDICTS_NOTHING,
        DeepClAM=DEEP + "test_number_of_clusters_is_found",
    ),
    "``predict``": cells(
        HERE + "test_predictions",
        GraphCutClustering="cuts/test_graph_cut.py::"
        "test_a_new_row_goes_where_the_cut_is_least",
        SpanningForestEmbedding=PREDICTS_NOTHING,
    ),
    "``predict_proba``, of forests with ``consensus=True`` and perturbations": cells(
        HERE + "test_probabilities",
        GraphCutClustering=NO_MODEL,
        SpanningForestEmbedding=PREDICTS_NOTHING,
    ),
    "``partial_fit``": cells(
        HERE + "test_a_stream",
        SpanningForestClustering=NOTHING_TRAINED,
        GraphCutClustering=NO_MODEL,
        SparseGEMINI=WHOLE_PATHS,
        SparseGEMINICV=WHOLE_PATHS,
        DeepClAM=ALL_CODES,
    ),
    "callbacks": cells(
        SEARCH + "test_callbacks_in_a_search",
        SpanningForestClustering=HERE + "test_a_progress_bar",
        GraphCutClustering=NO_MODEL,
        SparseGEMINICV=SEARCH + "test_a_search_over_paths",
        SpanningForestEmbedding="forests/test_spanning_forest_embedding.py::"
        "test_callbacks_through_a_search_of_pipelines",
        DeepClAM=DEEP + "test_callbacks_watch_every_epoch_through_a_search",
    ),
    "interruption by Ctrl-C": cells("faults/test_interruption.py::test_control_c"),
    "``ConvergenceWarning``": cells(
        HERE + "test_what_has_not_converged_says_so",
        SpanningForestClustering=NOTHING_TRAINED,
        GraphCutClustering=NO_MODEL,
        DeepClAM=VALUES + "test_training_that_diverges_says_so",
    ),
    "``checkpoint=``, ``resume=``": cells(
        RESUME + "test_resuming_from_every_step",
        SpanningForestClustering=NOTHING_TRAINED,
        ClAM=SECONDS,
        GraphCutClustering=NO_MODEL,
        PRCut="cuts/test_resuming.py::test_a_resumed_fit_has_the_bits_of_a_whole_one",
        GEMINI=RESTARTS,
        SparseGEMINICV="gemini/test_sparse_gemini_cv.py::"
        "test_a_fit_goes_on_from_its_checkpoint",
    ),
    "torch module as encoder, ``device``": cells(
        SpanningForestClustering=NOTHING_TRAINED,
        ClAM=NO_ENCODER,
        GraphCutClustering=NO_MODEL,
        PRCut="cuts/test_torch.py::test_a_module_is_copied_trained_and_kept_on_the_cpu",
        GEMINI="gemini/test_module.py::test_blobs_and_what_is_fitted",
        SparseGEMINI=OWN_LAYER,
        SparseGEMINICV=OWN_LAYER,
        SpanningForestEmbedding="forests/test_spanning_forest_embedding.py::"
        "test_module_on_images",
        DeepClAM=DEEP + "test_module_is_copied_and_trained",
    ),
    "``score``": cells(HERE + "test_score", SpanningForestClustering=NO_OBJECTIVE),
    "NaN: an error that names imputers; accepted by ClAM": cells(
        VALUES + "test_rows_that_are_not_finite",
    ),
    "``set_output``, feature names, float32": cells(
        HERE + "test_output",
        SpanningForestClustering=NO_TRANSFORM,
        GraphCutClustering=NO_TRANSFORM,
        GEMINI=NO_TRANSFORM,
    ),
    "metadata routing": cells(HERE + "test_metadata_routing"),
}
CONTRACT = Table("contract", "what", ROWS, NAMES)

"""The table of faults: what can go wrong, and the test that shows what happens then."""

from proven import Dash, Table, cells

NO_CLUSTERS = Dash("an embedding has no clusters that could be empty")
NO_LINKS = Dash("takes no labels or links")
NO_FOREST = Dash("finds no forest under constraints")
NO_GRAPH = Dash("takes no graph")
NO_MATRIX = Dash("takes no matrix of relations")
NO_PROPORTIONS = Dash("divides by no degrees or proportions")
NO_TEMPERATURE = Dash("has no temperature and no kernel")
NO_BATCHES = Dash("draws no batches")
NO_STEPS = Dash("is not trained by steps")
NO_DEVICE = Dash("runs on the CPU")
NO_CHECKPOINT = Dash("writes no checkpoint")
NO_PAIRS = Dash("compares no pairs of all samples")
FIRST_LABELS = Dash("starts from the labels of GraphCutClustering")
NO_TREE = Dash("grows no tree of all samples")
NO_WEIGHTS = Dash("takes no sample weights")
WRAPS = Dash("checks its weights as the SparseGEMINI that it fits")

ROWS = {
    "1 NaN or infinity in X": cells(
        "faults/test_values.py::test_rows_that_are_not_finite",
    ),
    "2 squared distances overflow": cells(
        "faults/test_values.py::test_distances_that_overflow_are_refused_at_once",
    ),
    "3 values beyond float32": cells(
        "faults/test_values.py::test_float32_rows_whose_squares_only_float64_holds",
    ),
    "4 constant feature, offset of 1e6": cells(
        "faults/test_values.py::test_a_huge_offset_changes_nothing",
        SpanningForestEmbedding="faults/test_values.py::test_an_offset_and_a_constant_feature_leave_an_embedding_that_separates",
    ),
    "5 all samples equal": cells(
        "faults/test_values.py::test_all_rows_equal",
    ),
    "6 ``n_clusters`` that is none": cells(
        "faults/test_values.py::test_n_clusters_that_is_no_number_of_clusters",
    ),
    "7 one sample": cells(
        "faults/test_values.py::test_one_row",
    ),
    "8 a cluster that is empty": cells(
        "faults/test_values.py::test_fewer_distinct_rows_than_clusters",
        SpanningForestEmbedding=NO_CLUSTERS,
    ),
    "9 links that contradict": cells(
        "faults/test_constraints.py::test_contradiction_through_the_closure_names_the_pair",
        SparseGEMINICV=NO_LINKS,
        SpanningForestEmbedding="forests/test_spanning_forest_embedding.py::test_what_must_be_given",
    ),
    "10 clusters infeasible under links": cells(
        "faults/test_constraints.py::test_constraints_that_cannot_be_meant",
        SparseGEMINICV=NO_LINKS,
        SpanningForestEmbedding="faults/test_constraints.py::test_more_classes_than_clusters_give_no_negative_loss",
    ),
    "11 a forest of a wrong number of edges": cells(
        NO_FOREST,
        SpanningForestClustering="faults/test_constraints.py::test_a_constrained_forest_has_as_many_edges_as_it_must",
        SpanningForestEmbedding="faults/test_constraints.py::test_more_classes_than_clusters_give_no_negative_loss",
    ),
    "12 graph in more parts than clusters": cells(
        NO_GRAPH,
        SpanningForestClustering="faults/test_parameters.py::test_a_graph_in_more_parts_than_clusters_is_refused",
        GraphCutClustering="cuts/test_prcut.py::test_more_parts_than_clusters_are_put_together_whole",
        PRCut=FIRST_LABELS,
    ),
    "13 matrix not square, not symmetric": cells(
        NO_MATRIX,
        SpanningForestClustering="faults/test_parameters.py::test_a_matrix_that_is_not_symmetric_is_symmetrised_with_a_warning",
        GraphCutClustering="cuts/test_prcut.py::test_wrong_graphs_are_refused",
        PRCut="cuts/test_prcut.py::test_wrong_graphs_are_refused",
        GEMINI="gemini/test_gemini.py::test_precomputed_relations_need_no_features",
    ),
    "14 negative weights": cells(
        NO_MATRIX,
        SpanningForestClustering="forests/test_spanning_forest.py::test_zero_is_an_edge_like_any_other_among_negative_distances",
        GraphCutClustering="cuts/test_prcut.py::test_wrong_graphs_are_refused",
        PRCut="cuts/test_prcut.py::test_wrong_graphs_are_refused",
        GEMINI="gemini/test_gemini.py::test_precomputed_relations_need_no_features",
    ),
    "15 isolated vertex, proportion near 0": cells(
        NO_PROPORTIONS,
        GraphCutClustering="cuts/test_graph_cut.py::test_isolated_vertices_are_warned_of",
        PRCut=FIRST_LABELS,
        GEMINI="faults/test_values.py::test_a_cluster_of_one_far_row_leaves_all_finite",
        SparseGEMINI="faults/test_values.py::test_a_cluster_of_one_far_row_leaves_all_finite",
        SparseGEMINICV="faults/test_values.py::test_a_cluster_of_one_far_row_leaves_all_finite",
    ),
    "16 temperature that over- or underflows": cells(
        "faults/test_values.py::test_a_kernel_of_any_width_is_finite",
        SpanningForestClustering=NO_TEMPERATURE,
        ClAM="faults/test_values.py::test_any_temperature_is_finite",
        GraphCutClustering="faults/test_values.py::test_any_temperature_is_finite",
        PRCut=FIRST_LABELS,
        SpanningForestEmbedding=NO_TEMPERATURE,
    ),
    "17 NaN in a parameter": cells(
        "faults/test_parameters.py::test_nan_in_any_parameter_that_is_a_number",
        SpanningForestClustering="faults/test_parameters.py::test_parameters_out_of_range",
    ),
    "18 integers, booleans, other numbers": cells(
        "faults/test_containers.py::test_small_integers_and_objects_are_the_same_numbers",
    ),
    "19 text, complex numbers, dates": cells(
        "faults/test_containers.py::test_rows_that_are_no_numbers",
    ),
    "20 frames, memory maps, strides": cells(
        "faults/test_containers.py::test_any_container_gives_the_same_answer",
    ),
    "21 sparse X, indices of 64 bits": cells(
        "faults/test_values.py::test_sparse_rows_give_the_labels_of_dense_ones",
    ),
    "22 masked array": cells(
        "faults/test_containers.py::test_rows_that_are_no_numbers",
    ),
    "23 batch larger than the data": cells(
        "faults/test_values.py::test_batches_that_do_not_divide_the_rows",
        SpanningForestClustering=NO_BATCHES,
        GraphCutClustering=NO_BATCHES,
    ),
    "24 training diverges": cells(
        "faults/test_values.py::test_training_that_diverges_says_so",
        SpanningForestClustering=NO_STEPS,
        GraphCutClustering=NO_STEPS,
    ),
    "25 no such device": cells(
        NO_DEVICE,
        PRCut="faults/test_values.py::test_a_missing_device_is_refused",
        SpanningForestEmbedding="faults/test_values.py::test_a_missing_device_is_refused",
    ),
    "26 CUDA out of memory": cells(
        NO_DEVICE,
        PRCut="cuts/test_torch.py::test_a_batch_that_does_not_fit_is_halved_without_changing_the_step",
        SpanningForestEmbedding="test_torch.py::test_out_of_memory_halves_the_batch",
    ),
    "27 Ctrl-C": cells(
        "faults/test_interruption.py::test_control_c",
    ),
    "28 killed while it runs": cells(
        NO_CHECKPOINT,
        ClAM=NO_CHECKPOINT,
        SparseGEMINI="test_checkpoint_resume.py::test_resuming_from_every_step",
        SpanningForestEmbedding="test_checkpoint_resume.py::test_resuming_from_every_step",
    ),
    "29 disk full, altered checkpoint": cells(
        NO_CHECKPOINT,
        ClAM=NO_CHECKPOINT,
        SparseGEMINI="test_checkpoint_resume.py::test_labels_out_of_range_are_refused",
        SpanningForestEmbedding="test_checkpoint_resume.py::test_a_full_disk_keeps_the_fit",
    ),
    "30 another version, no GPU": cells(
        "faults/test_processes.py::test_saved_by_another_version",
    ),
    "31 threads at once": cells(
        "faults/test_processes.py::test_two_threads_give_the_serial_answer",
    ),
    "32 fork after a fit": cells(
        "faults/test_processes.py::test_fit_in_a_forked_child_after_a_fit",
    ),
    "33 limits of threads, search": cells(
        "faults/test_processes.py::test_limits_of_threads_are_respected",
    ),
    "34 all pairs of 200 000 samples": cells(
        "faults/test_parameters.py::test_all_pairs_of_many_rows_are_refused_at_once",
        ClAM=NO_PAIRS,
        SpanningForestEmbedding=NO_PAIRS,
    ),
    "35 a chain of many samples": cells(
        NO_TREE,
        SpanningForestClustering="faults/test_parameters.py::test_a_long_chain",
    ),
    "36 global streams, filters, threads": cells(
        "faults/test_processes.py::test_global_state_is_left_alone",
    ),
    "37 ties": cells(
        "faults/test_processes.py::test_ties_are_broken_by_the_indices_of_rows",
    ),
    "38 nowhere to write a cache": cells(
        "test_compiled.py::test_nowhere_to_write_a_cache",
    ),
    "39 pairs of samples in a search": cells(
        "faults/test_constraints.py::test_constraints_that_cannot_be_meant",
        SparseGEMINICV=NO_LINKS,
        SpanningForestEmbedding="forests/test_spanning_forest_embedding.py::test_what_must_be_given",
    ),
    "47 annotated data": cells(
        "faults/test_containers.py::test_annotated_data_is_refused_unread",
    ),
    "48 a symmetric matrix as features": cells(
        "faults/test_containers.py::test_a_symmetric_matrix_as_features_is_noticed",
    ),
    "49 squared distances underflow": cells(
        "faults/test_values.py::test_squares_that_underflow_are_refused",
    ),
    "50 sparse indices outside the shape": cells(
        "faults/test_sparse_indices.py::test_samples_are_refused",
    ),
    "51 weights of any size": cells(
        "faults/test_values.py::test_weights_of_any_size_are_counted",
        SparseGEMINICV=WRAPS,
        SpanningForestEmbedding=NO_WEIGHTS,
    ),
}
FAULTS = Table("faults", "fault", ROWS)

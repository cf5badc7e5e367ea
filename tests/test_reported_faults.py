"""Faults that users of other tools reported, by number, and the tests that keep each kind out."""

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent

SERVER, AGENT, ENGINE = "composer_lsp/server", "composer_lsp/agent", "composer_lsp/engine"
INDEX = "composer_index"

FAULTS: dict[int, tuple[str, ...]] = {
    # Positions off by a character where what stands before is not ASCII.
    8: (
        f"{SERVER}/test_inline_completion.py::test_text_before_the_cursor_of_any_kind",
        f"{SERVER}/test_documents.py::test_random_edits",
        f"{SERVER}/test_workspace_edits.py::test_they_make_the_text_that_was_meant",
        f"{SERVER}/test_workspace_edits.py::test_the_end_of_a_last_line_is_counted_in_the_clients_units",
    ),
    # Encodings, byte order marks, mixed line ends, the last line's end.
    9: (
        f"{AGENT}/edits/test_text_file.py::test_an_edit_keeps_the_bytes_around_it",
        f"{AGENT}/edits/test_text_file.py::test_a_byte_order_mark_stays",
        f"{AGENT}/tools/test_edit.py::test_line_ends_of_the_models_own_do_not_count",
        f"{AGENT}/workspace/test_directory.py::test_an_encoding_stays",
        "composer_lsp/acp/test_acp.py::test_bytes_that_no_hunk_touches_stay",
    ),
    # A replacement that does not match empties the file, or is said to be done.
    10: (
        f"{AGENT}/test_run.py::test_an_edit_that_does_not_match_changes_nothing",
        f"{AGENT}/tools/test_edit.py::test_an_edit_that_does_not_match_changes_nothing",
        f"{AGENT}/edits/test_replace.py::test_what_does_not_fit_is_refused",
    ),
    # A read that was cut is written back as the whole.
    11: (
        f"{AGENT}/tools/test_files.py::test_a_long_read_says_where_it_was_cut",
        f"{AGENT}/tools/test_files.py::test_a_file_read_in_part_is_not_written_over",
        f"{AGENT}/test_run.py::test_a_cut_file_is_not_written",
        f"{AGENT}/formats/test_splitter.py::test_a_cut_file_is_never_written_shorter",
    ),
    # Files that the user never opened are edited without being asked.
    12: (
        f"{SERVER}/test_agent_changes.py::test_files_that_are_not_open_are_not_touched_unasked",
        f"{SERVER}/test_agent.py::test_edits_wait_until_they_are_accepted",
    ),
    # Checkpoints that touch the user's git, or grow.
    13: (
        f"{AGENT}/test_checkpoints.py::test_git_is_not_touched",
        f"{AGENT}/test_checkpoints.py::test_is_bounded",
        f"{AGENT}/test_git.py::test_a_repository_runs_no_program",
        f"{AGENT}/commands/test_sandbox.py::test_git_reads_but_does_not_write",
    ),
    # Large trees, and processes that outlive the editor.
    14: (
        f"{INDEX}/worker/test_life.py::test_two_hundred_thousand_files",
        f"{INDEX}/worker/test_life.py::test_the_worker_leaves_when_its_parent_is_killed",
        f"{SERVER}/test_life_cycle.py::test_the_end_of_stdin_in_the_middle_of_anything",
        f"{SERVER}/test_life_cycle.py::test_the_death_of_the_client_process_alone",
        f"{SERVER}/test_index.py::test_the_worker_leaves_with_the_server",
    ),
    # The first folder alone; paths of other machines.
    16: (
        f"{SERVER}/test_index.py::test_every_folder_and_no_other",
        f"{SERVER}/test_local_path.py::test_what_is_none_is_not_glued_to_one",
        f"{SERVER}/test_life_cycle.py::test_a_process_id_of_another_machine_does_no_harm",
        f"{AGENT}/workspace/test_directory.py::test_several_roots_have_names",
    ),
    # Crashes without a restart, errors that are hidden, a status that is stuck.
    17: (
        f"{ENGINE}/test_launcher.py::test_engine_that_dies_again_and_again_is_left_alone",
        f"{ENGINE}/test_backoff.py::test_waits_double_up_to_the_longest_and_success_resets",
        f"{SERVER}/test_engine_service.py::test_the_engine_dies_in_the_middle",
        f"{SERVER}/test_status.py::test_an_error_is_told_once_and_leaves_no_thinking",
        f"{SERVER}/test_agent_surface.py::test_the_servers_own_words_reach_the_user_and_the_status_moves_on",
    ),
    # Methods that the client does not know.
    18: (
        f"{SERVER}/test_protocol.py::test_a_client_without_any_capability",
        f"{SERVER}/test_agent_surface.py::test_a_client_that_knows_no_progress_gets_its_answer",
        f"{SERVER}/test_agent_changes.py::test_a_client_that_knows_no_lens_refresh_stays_well",
    ),
    # A command runs because the model says that it needs no approval.
    19: (
        f"{AGENT}/commands/test_tools.py::test_the_word_of_the_model_is_no_approval",
        f"{AGENT}/commands/test_tools.py::test_an_argument_that_claims_an_approval_is_none",
        f"{AGENT}/commands/test_runner.py::test_the_policy_decides_and_not_the_model",
        f"{AGENT}/commands/test_policy.py::test_what_destroys_never_runs",
    ),
    # A command that never ends.
    20: (
        f"{AGENT}/test_run.py::test_cancelling_ends_the_tool_and_keeps_the_edits",
        f"{AGENT}/commands/test_tools.py::test_a_command_that_waits_for_input_ends",
        f"{AGENT}/commands/test_tools.py::test_a_command_that_never_ends_is_ended",
        f"{AGENT}/commands/test_run.py::test_a_daemon_ends_with_the_command",
    ),
    # A secret file, by one tool or another.
    21: (
        f"{AGENT}/tools/test_files.py::test_what_may_not_be_read_is_refused",
        f"{AGENT}/tools/test_grep.py::test_finds_lines_and_leaves_hidden_files_out",
        f"{AGENT}/tools/test_edit.py::test_nothing_is_written_where_nothing_may_be_read",
        f"{AGENT}/commands/test_tools.py::test_no_command_shows_a_secret",
        f"{AGENT}/commands/test_tools.py::test_git_shows_no_secret_of_its_history_unless_the_user_says_so",
        f"{AGENT}/commands/test_sandbox.py::test_secrets_of_the_workspace_are_covered",
        f"{SERVER}/test_agent_surface.py::test_secret_files_that_are_open_are_not_named",
        "composer_lsp/acp/test_acp.py::test_secrets_and_places_outside_are_never_asked_of_the_client",
    ),
    # A tool server that is trusted by its name.
    22: (
        f"{AGENT}/mcp/test_servers.py::test_case_22_a_server_whose_command_was_changed_later",
        f"{AGENT}/mcp/test_servers.py::test_case_22_a_server_whose_program_was_changed_later",
        f"{AGENT}/mcp/test_servers.py::test_tools_that_change_while_running_are_asked_again",
        f"{AGENT}/mcp/test_approval.py::test_another_command_by_the_same_name_is_asked_again",
    ),
}


@cache
def marks_by_test(file: Path) -> dict[str, str]:
    """The tests of a file, each with what its decorators say."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {
        node.name: " ".join(map(ast.unparse, node.decorator_list))
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    }


@pytest.mark.parametrize("number", FAULTS)
def test_each_kind_has_tests_that_are_there(number: int) -> None:
    marks: list[str] = []
    for place in FAULTS[number]:
        file, _, name = place.partition("::")
        tests = marks_by_test(ROOT / file)
        assert name in tests, f"{place} is not there (any more)"
        marks.append(tests[name])
    assert any("soak" not in each and "skip(" not in each for each in marks), "none of them runs"


def test_the_list_is_whole() -> None:
    assert set(FAULTS) == {*range(8, 15), *range(16, 23)}

"""What the first rank makes of the others' answers."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from composer_inference.backends.base import BackendError
from composer_inference.batching.followers import Failed, Followers, FollowersError, Loaded
from composer_inference.decoder.batch import Span
from tests.support.followers import follow

LOADED = Loaded(num_blocks=8, weights_bytes=100)
SPAN = Span(token_ids=[1], num_cached=0, blocks=[0])
PATH = Path("other-weights")

Start = Callable[..., Followers]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[Followers] = []

    def followers(*replies: list[Any]) -> Followers:
        """Of each rank but the first."""
        given = dict(enumerate(replies, start=1))
        started.append(Followers(follow, given, num_ranks=1 + len(replies)))
        return started[-1]

    yield followers
    for each in started:
        each.close()
        assert not each.meeting_point.parent.exists()


def test_one_that_cannot_load_is_named(start: Start) -> None:
    followers = start([LOADED], [Failed("no memory")])
    with pytest.raises(FollowersError, match="rank 2: no memory"):
        followers.loaded()


def test_one_that_ends_is_told_now_and_later(start: Start) -> None:
    followers = start([LOADED, 3])
    assert followers.loaded() == [LOADED]
    followers.begin(8)
    with pytest.raises(FollowersError, match="rank 1 ended with 3"), followers.reloading(PATH):
        pass
    with pytest.raises(FollowersError, match="rank 1 ended with 3"), followers.computing([SPAN]):
        pass


def test_a_step_that_fails_here_ends_all(start: Start) -> None:
    followers = start([LOADED])
    followers.loaded()
    with (
        pytest.raises(FollowersError, match="a step failed: no connection"),
        followers.computing([SPAN]),
    ):
        raise RuntimeError("no connection")
    with pytest.raises(FollowersError, match="no connection"):
        followers.begin(8)


@pytest.mark.parametrize("refused_here", [True, False])
def test_weights_that_only_some_could_load(start: Start, refused_here: bool) -> None:
    followers = start([LOADED, Failed("cut off")], [LOADED, None])
    followers.loaded()
    with (
        pytest.raises(FollowersError, match="only some ranks could load other-weights"),
        followers.reloading(PATH),
    ):
        if refused_here:
            raise BackendError("cut off")


def test_weights_that_all_refuse(start: Start) -> None:
    followers = start([LOADED, Failed("cut off"), None])
    followers.loaded()
    with pytest.raises(BackendError, match="^cut off$"), followers.reloading(PATH):
        raise BackendError("cut off")
    with followers.reloading(PATH):
        pass

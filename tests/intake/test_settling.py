"""When a drop is complete, whatever happens in it and whenever it is looked at."""

from hypothesis import given
from hypothesis import strategies as st

from adaptd.intake.settling import DropState, Settling
from adaptd.intake.tree import Stamp, Tree


def tree(content, temporary=(), *, ready=False, files=1):
    """A drop of some content."""
    stamps = {name: Stamp(0o100000, size, 0) for name, size in dict(temporary).items()}
    return Tree(f"{content}{sorted(stamps.items())}", files, 0, ready, stamps)


gaps = st.floats(0.001, 20)
settles = st.floats(0, 10)
contents = st.integers(0, 3)


@given(settles, st.lists(st.tuples(gaps, contents)))
def test_never_settles_soon_after_a_change(settle_seconds, looks):
    """Whenever it is looked at, a drop that was seen to change less than `settle_seconds` ago is arriving."""
    settling, now, content, changed = Settling(settle_seconds, 100), 0.0, None, 0.0
    for gap, seen in looks:
        now += gap
        if seen != content:
            content, changed = seen, now
        verdict = settling.look("d", tree(content), now)
        assert (verdict.state is DropState.SETTLED) == (now >= changed + settle_seconds)


@given(
    settles, st.floats(0, 200), st.lists(st.tuples(gaps, contents, st.dictionaries(st.sampled_from("xyz"), contents)), min_size=1)
)
def test_always_settles_once_quiet(settle_seconds, temporary_seconds, looks):
    """Looked at only when it asks for it, a drop that stands still settles, within as many looks as it has temporary files."""
    settling, now = Settling(settle_seconds, temporary_seconds), 0.0
    for gap, content, temporary in looks:
        now += gap
        verdict = settling.look("d", tree(content, temporary), now)
    stopped = now
    for _ in range(3):
        if verdict.state is DropState.SETTLED:
            break
        assert verdict.next_look > now
        now = verdict.next_look
        verdict = settling.look("d", tree(content, temporary), now)
    assert verdict.state is DropState.SETTLED
    assert now <= stopped + max(settle_seconds, temporary_seconds if temporary else 0)


@given(settles, st.lists(st.tuples(gaps, contents)), st.dictionaries(st.sampled_from("xyz"), contents))
def test_the_mark_settles_at_once(settle_seconds, looks, temporary):
    """`_READY` beside a file ends all waiting, for changes and for temporary files."""
    settling, now = Settling(settle_seconds, 100), 0.0
    for gap, content in looks:
        now += gap
        settling.look("d", tree(content, temporary), now)
    assert settling.look("d", tree("last", temporary, ready=True), now + 0.001).state is DropState.SETTLED


@given(st.lists(st.tuples(gaps, contents), max_size=20))
def test_a_temporary_file_that_grows_holds_the_drop_up(looks):
    """However quiet all else is, until the temporary file itself stood still for `temporary_seconds`."""
    settling, now, size, changed = Settling(1, 30), 0.0, None, 0.0
    for gap, seen in looks:
        now += gap
        if seen != size:
            size, changed = seen, now
        verdict = settling.look("d", tree("same", {"a/x.part": size}), now)
        assert (verdict.state is DropState.SETTLED) == (now >= changed + 30)
        if now >= changed + 1 and verdict.state is DropState.ARRIVING:
            assert verdict.waiting_for == "a/x.part"
            assert "'a/x.part'" in verdict.why


def test_an_old_temporary_file_stays_old_while_others_come():
    """Each temporary file has its own time; a new one does not make the left-behind one young."""
    settling = Settling(1, 30)
    settling.look("d", tree("", {"old": 1}), 0)
    assert settling.look("d", tree("", {"old": 1, "new": 1}), 25).next_look == 26
    assert settling.look("d", tree("", {"old": 1, "new": 1}), 26).waiting_for == "new"
    assert settling.look("d", tree("", {"old": 1}), 29).next_look == 30
    assert settling.look("d", tree("", {"old": 1}), 30).state is DropState.SETTLED


def test_empty_folders_are_no_drops():
    """Neither by time nor by the mark; and a drop of nothing but a left-behind temporary file is one."""
    settling = Settling(1, 30)
    for now in (0, 100):
        assert settling.look("d", tree("", files=0), now).state is DropState.EMPTY
        assert settling.look("e", tree("", files=0, ready=True), now).state is DropState.EMPTY
        verdict = settling.look("f", tree("", {"x.part": 1}, files=0, ready=True), now)
    assert verdict.state is DropState.SETTLED


def test_drops_do_not_mix_and_can_be_forgotten():
    """Each drop has its own time, and one that comes again under an old name starts anew."""
    settling = Settling(5, 30)
    settling.look("a", tree(1), 0)
    settling.look("b", tree(1), 4)
    assert settling.look("a", tree(1), 5).state is DropState.SETTLED
    assert settling.look("b", tree(1), 5).state is DropState.ARRIVING
    settling.forget("a")
    assert settling.look("a", tree(1), 6).state is DropState.ARRIVING

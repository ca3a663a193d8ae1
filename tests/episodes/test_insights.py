"""What an episode wrote down for the pages agrees with what it measured."""

from adaptd.evaluation.insight import parse_insight


def test_an_episode_leaves_an_insight(adapted_shop):
    """Images of the source and of the new domain, seen by the model before and after; right answers as often as R says."""
    first, second = (
        parse_insight((adapted_shop.state / "insights" / f"{number}.json").read_text(encoding="utf-8")) for number in (1, 2)
    )
    assert (first.before, set(first.domains)) == ((), {1})
    assert set(second.domains) == {1, 2}
    assert len(second.before) == len(second.after) == len(second.before_points) == len(second.after_points) == len(second.ids)
    known = [
        (truth, said) for truth, said, domain in zip(second.labels, second.after, second.domains, strict=True) if domain == 1
    ]
    ((correct, n),) = adapted_shop.rows("SELECT correct, n FROM accuracies WHERE version = 2 AND domain_id = 1")
    assert (sum(truth == said for truth, said in known), len(known)) == (correct, n)

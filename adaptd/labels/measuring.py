"""Every stored version on the images that people labelled: a column of R, also above the diagonal. Needs torch."""

from collections.abc import Callable
from dataclasses import dataclass

from adaptd.errors import WeightsMismatch, WeightsUnavailable
from adaptd.evaluation.evaluator import predict
from adaptd.evaluation.predictions import Prediction
from adaptd.evaluation.rows import measure_accuracy
from adaptd.labels.summary import describe_labels, tell_errors
from adaptd.library.imageset import ImageSet
from adaptd.project.layers import Project
from adaptd.project.layout import Layout
from adaptd.records import Accuracy, Domain, EventKind, Version
from adaptd.releases.given import list_unmeasured, read_given
from adaptd.releases.images import read_image_sets
from adaptd.releases.weights import load_version
from adaptd.store import Store

Show = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Measured:
    """What came of it: how many versions were measured, and why some could not be."""

    versions: int
    troubles: tuple[str, ...] = ()


def measure_domain(project: Project, store: Store, domain_id: int, show: Show = lambda _done, _total: None) -> Measured:
    """Measure the versions that are still to be measured on a domain's labels.

    Where labels change meanwhile nothing is recorded: whoever changed them sees to it.
    """
    layout = Layout(project.state)
    with store.reading() as tx:
        images, domain = read_image_sets(tx, layout), tx.domains.get(domain_id)
        versions = list_unmeasured(tx).get(domain_id, ())
    test = images.open_test(domain) if versions else None
    if test is None:
        return Measured(0)
    found: list[Accuracy] = []
    troubles: list[str] = []
    for done, version in enumerate(versions):
        show(done, len(versions))
        try:
            found.append(_measure(project, layout, version, domain, test))
        except (WeightsUnavailable, WeightsMismatch) as problem:
            troubles.append(str(problem))
    show(len(versions), len(versions))
    with store.writing() as tx:
        if read_given(tx, (domain,)).get(domain_id) != images.given[domain_id]:
            return Measured(0, tuple(troubles))
        for accuracy in found:
            tx.accuracies.record(accuracy)
        if found:
            about = describe_labels(tx, domain.name, project.settings.evaluation.confidence)
            message = f"{len(found)} versions were measured on {len(test)} labelled images{tell_errors(about)}"
            tx.events.add(EventKind.DOMAIN_MEASURED, message, domain_id=domain_id)
    return Measured(len(found), tuple(troubles))


def _measure(project: Project, layout: Layout, version: Version, domain: Domain, test: ImageSet) -> Accuracy:
    settings = project.settings.evaluation
    logits = predict(load_version(layout, version), test, settings.batch_size)
    return measure_accuracy(Prediction(logits, test.labels), domain, version.version, settings)

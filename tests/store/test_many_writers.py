"""Eight processes write through the store at once."""

import multiprocessing
import time

from adaptd.records import DomainState, NewImage
from adaptd.store import Store

WRITERS, SECONDS = 8, 2


def write_for_a_while(address: str, writer: int, counts, begin) -> None:
    """Add images one transaction at a time, each after a read in the same transaction, and count what was committed."""
    done = 0
    with Store(address) as store:
        begin.wait()
        deadline = time.monotonic() + SECONDS
        while not done or time.monotonic() < deadline:  # who is locked out raises
            with store.writing() as tx:
                domain = tx.domains.find("busy")
                tx.images.add_many(domain.id, [NewImage(f"{writer}-{done}", 1, "x")])
            done += 1
    counts[writer] = done


def test_nothing_is_lost_and_nobody_is_locked_out(address):
    """Every commit of every process is there, the counter agrees, and no process failed."""
    with Store(address) as store, store.writing() as tx:
        domain_id = tx.domains.add("busy", DomainState.QUEUED).id
    context = multiprocessing.get_context("spawn")
    counts, begin = context.Array("i", WRITERS), context.Barrier(WRITERS)
    writers = [context.Process(target=write_for_a_while, args=(address, n, counts, begin)) for n in range(WRITERS)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0] * WRITERS
    assert min(counts) > 0
    with Store(address) as store, store.reading() as tx:
        assert len(tx.images.list_for(domain_id)) == sum(counts) == tx.domains.get(domain_id).images

"""What methods with a feature bank share. How the losses become one gradient is each one's own."""

from typing import TypeVar

from torch import Tensor

from adaptd.learning.batches import Batch
from adaptd.learning.grcl import Bank, Contrast
from adaptd.learning.methods.base import Method
from adaptd.learning.methods.options import ContrastiveOptions
from adaptd.learning.survey import Surveys

Options = TypeVar("Options", bound=ContrastiveOptions)


class Contrastive(Method[Options]):
    """A method with a bank. `update` leaves the batch's unit vectors in `z`, with which the bank follows."""

    needs_keys = True
    bank: Bank
    z: list[Tensor]

    def begin(self, surveys: Surveys) -> None:
        """Fill the bank with the model's own view of every image (Eq. 2)."""
        self.bank = Bank(surveys.keys().to(self.plan.device), self.options.bank_momentum)

    def contrast(self, batch: Batch) -> Contrast:
        """This step's negatives."""
        negatives = self.bank.draw(self.options.negatives, batch.generator("negatives"))
        return Contrast(self.bank, negatives, self.options.temperature)

    def follow(self, batch: Batch) -> None:
        """Move the keys of the batch's images (Eq. 3)."""
        self.bank.update([batch.rows], self.z)

    def tensors(self) -> dict[str, Tensor]:
        """The bank."""
        return {"bank": self.bank.keys}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """The bank as it was."""
        self.bank = Bank(tensors["bank"], self.options.bank_momentum)
        self.bank.keys.copy_(tensors["bank"])  # normalising a unit vector again may change its last bit

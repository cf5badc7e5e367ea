"""A small stock list, the sample that `composer-lsp try` types into."""

from dataclasses import dataclass


@dataclass
class Item:
    name: str
    price: float
    quantity: int = 0

    @property
    def value(self) -> float:
        return self.price * self.quantity


class Inventory:
    def __init__(self) -> None:
        self.items: dict[str, Item] = {}

    def add(self, item: Item) -> None:
        if item.name in self.items:
            self.items[item.name].quantity += item.quantity
        else:
            self.items[item.name] = item

    def total_value(self) -> float:
        """What everything in stock is worth."""

    def out_of_stock(self) -> list[str]:
        """Names of the items of which none are left."""
        return [item.name for item in self.items.values() if item.quantity == 0]

"""Who holds which block: a radix tree of computed prefixes, shared between requests and kept after
them. A node is one whole block of tokens, found by those tokens themselves. One thread's.

Source: the tree follows Zheng et al., SGLang: Efficient Execution of Structured Language Model
Programs, section 3; the blocks Kwon et al., PagedAttention, section 4.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from composer_inference.kv.blocks import FreeBlocks, OutOfBlocksError


@dataclass(slots=True, eq=False)
class _Node:
    block: int
    parent: "_Node | None"
    tokens: tuple[int, ...]
    children: dict[tuple[int, ...], "_Node"] = field(
        default_factory=dict["tuple[int, ...]", "_Node"]
    )
    twins: set[int] = field(default_factory=set[int])
    """Blocks of the same prefix that other leases computed, held all of them. The last holder of
    `block` leaves the node to one of these, so whoever holds a node holds all above it."""


class Lease:
    """The blocks of one sequence, made by `PrefixCache.acquire`."""

    def __init__(self, cache: "PrefixCache", path: Sequence[_Node], blocks: Sequence[int]) -> None:
        """For `PrefixCache`: `blocks` are counted as held already; `path` leads from the
        root to the node of the last."""
        self._cache = cache
        self._root = path[0]
        self._node = path[-1]
        self._num_committed = len(blocks)
        self._blocks = list(blocks)
        self._released = False
        self.num_cached = len(blocks) * cache.block_size
        """Tokens that were computed before this lease was made, a multiple of the block's size."""

    @property
    def blocks(self) -> list[int]:
        """In the order of the tokens. Grows with `reserve`; not to be written."""
        return self._blocks

    def reserve(self, num_tokens: int) -> None:
        """Have blocks for so many tokens in all, cached ones among them.

        Raises: OutOfBlocksError, and nothing has changed then.
        """
        assert not self._released, "the lease was released"
        needed = -(-num_tokens // self._cache.block_size) - len(self._blocks)
        if needed > 0:
            after = self._blocks[-1] if self._blocks else None
            self._blocks += self._cache.take(needed, after)

    def commit(self, token_ids: Sequence[int]) -> None:
        """Share the whole blocks among these tokens, which are all from the first one on: their keys
        and values are computed and will not be written again."""
        assert not self._released, "the lease was released"
        size = self._cache.block_size
        num_whole = len(token_ids) // size
        assert num_whole <= len(self._blocks), "more tokens than blocks"
        if self._root is not self._cache.root:
            return
        for index in range(self._num_committed, num_whole):
            tokens = tuple(token_ids[index * size : (index + 1) * size])
            self._node = self._cache.enter(self._node, tokens, self._blocks[index])
        self._num_committed = max(self._num_committed, num_whole)

    def release(self) -> None:
        """Committed blocks stay cached, the others are free. A second call does nothing."""
        if not self._released:
            self._released = True
            self._cache.let_go(self)
            self._blocks = []


class PrefixCache:
    """`take`, `lease`, `enter` and `let_go` are for `Lease`."""

    def __init__(self, num_blocks: int, block_size: int) -> None:
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.root = _Node(-1, None, ())
        """Another one after each `clear`."""
        self._free = FreeBlocks(num_blocks)
        self._num_holders = [0] * num_blocks
        self._node_of: list[_Node | None] = [None] * num_blocks
        self._unheld: OrderedDict[_Node, None] = OrderedDict()
        """Least recently used first. A lease holds a whole path and lets go of the deepest node
        first, so each node stands behind those below it: the first is a leaf."""
        self._leases: set[Lease] = set()

    @property
    def num_free(self) -> int:
        """Blocks that hold nothing."""
        return len(self._free)

    @property
    def num_cached(self) -> int:
        """Blocks that nobody holds, but that may be shared until they are evicted."""
        return len(self._unheld)

    @property
    def num_held(self) -> int:
        """Blocks of leases that are not released."""
        return self.num_blocks - self.num_free - self.num_cached

    def acquire(self, token_ids: Sequence[int]) -> Lease:
        """Share the longest cached prefix in whole blocks that leaves a token to compute."""
        path = [self.root, *self._find(token_ids)]
        return self.lease(path, [node.block for node in path[1:]])

    def num_matching(self, token_ids: Sequence[int]) -> int:
        """Tokens that `acquire` would find computed. Nothing is taken or touched."""
        return self.block_size * sum(1 for _ in self._find(token_ids))

    def clear(self) -> None:
        """Forget all. Held blocks stay with their leases and are never shared again."""
        for node in self._nodes():
            for block in (node.block, *node.twins):
                self._node_of[block] = None
        self._free.give(node.block for node in self._unheld)
        self._unheld.clear()
        self.root = _Node(-1, None, ())

    def lease(self, path: Sequence[_Node], blocks: Sequence[int]) -> Lease:
        """A lease on blocks of the tree."""
        for block in blocks:
            if not self._num_holders[block]:
                node = self._node_of[block]
                assert node is not None, f"block {block} is neither held nor cached"
                del self._unheld[node]
            self._num_holders[block] += 1
        lease = Lease(self, path, blocks)
        self._leases.add(lease)
        return lease

    def take(self, num_blocks: int, after: int | None) -> list[int]:
        """Blocks that the caller holds from now on, of a run behind `after` if there is one.

        Raises: OutOfBlocksError, and nothing has changed then.
        """
        available = self.num_free + self.num_cached
        if num_blocks > available:
            raise OutOfBlocksError(num_blocks, available)
        self._free.give([self._evict() for _ in range(num_blocks - self.num_free)])
        blocks = self._free.take(num_blocks, after=after)
        for block in blocks:
            self._num_holders[block] = 1
        return blocks

    def enter(self, parent: _Node, tokens: tuple[int, ...], block: int) -> _Node:
        """Put a held block below a node that the same lease holds."""
        node = parent.children.get(tokens)
        if node is None:
            node = parent.children[tokens] = _Node(block, parent, tokens)
        elif node in self._unheld:
            del self._unheld[node]
            self._node_of[node.block] = None
            self._free.give([node.block])
            node.block = block
        else:
            node.twins.add(block)
        self._node_of[block] = node
        return node

    def let_go(self, lease: Lease) -> None:
        """Of all the blocks of a lease."""
        self._leases.remove(lease)
        freed: list[int] = []
        for block in reversed(lease.blocks):
            self._num_holders[block] -= 1
            if not self._num_holders[block] and not self._keep(block):
                self._node_of[block] = None
                freed.append(block)
        self._free.give(freed)

    def check_integrity(self) -> None:
        """Look at every block.

        Raises: AssertionError that says what is wrong.
        """
        free = self._free.check_integrity()
        holders = Counter(block for lease in self._leases for block in lease.blocks)
        for block, expected in enumerate(self._num_holders):
            assert holders[block] == expected, f"block {block}: {expected}, held {holders[block]}"
        in_tree: dict[int, _Node] = {}
        for node in self._nodes():
            assert len(node.tokens) == self.block_size, f"block {node.block}: {node.tokens}"
            for block in (node.block, *node.twins):
                assert block not in in_tree, f"block {block} is in the tree twice"
                in_tree[block] = node
            self._check_held(node)
        for block, node in enumerate(self._node_of):
            assert in_tree.get(block) is node, f"block {block} does not know its node"
            states = (block in free, block in holders, node is not None and node in self._unheld)
            assert sum(states) == 1, f"block {block}: (free, held, cached) = {states}"
        self._check_order(in_tree)

    def _check_held(self, node: _Node) -> None:
        held = bool(self._num_holders[node.block])
        assert held != (node in self._unheld), f"block {node.block} is held and evictable, or not"
        for twin in node.twins:
            assert held and self._num_holders[twin], f"block {twin} is a twin that nobody needs"
        for child in node.children.values():
            assert child.parent is node, f"block {child.block} has another parent"
            assert held or child in self._unheld, f"block {node.block} is evictable, not its child"

    def _check_order(self, in_tree: dict[int, _Node]) -> None:
        seen: set[_Node] = set()
        for node in self._unheld:
            assert in_tree.get(node.block) is node, f"block {node.block} is cached, not in the tree"
            assert seen.issuperset(node.children.values()), f"block {node.block}: evicted too soon"
            seen.add(node)

    def _find(self, token_ids: Sequence[int]) -> Iterator[_Node]:
        node = self.root
        for start in range(0, len(token_ids) - self.block_size, self.block_size):
            child = node.children.get(tuple(token_ids[start : start + self.block_size]))
            if child is None:
                return
            yield child
            node = child

    def _keep(self, block: int) -> bool:
        """Whether a block that nobody holds any longer stays cached."""
        node = self._node_of[block]
        if node is None:
            return False
        if node.block != block:
            node.twins.remove(block)
            return False
        if node.twins:
            node.block = node.twins.pop()
            return False
        self._unheld[node] = None
        return True

    def _evict(self) -> int:
        node, _ = self._unheld.popitem(last=False)
        assert node.parent is not None and not node.children, f"block {node.block} is no leaf"
        del node.parent.children[node.tokens]
        self._node_of[node.block] = None
        return node.block

    def _nodes(self) -> Iterator[_Node]:
        pending = list(self.root.children.values())
        while pending:
            node = pending.pop()
            yield node
            pending += node.children.values()

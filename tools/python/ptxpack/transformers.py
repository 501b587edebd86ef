"""ptxpack.transformers - the attention of Hugging Face transformers, of version 4.57 and of 5:

    import ptxpack.transformers
    ptxpack.transformers.register()
    model = AutoModelForCausalLM.from_pretrained(name, dtype=torch.bfloat16, attn_implementation="ptxpack")

Honoured  f16 and bf16; grouped heads; head dimensions up to 256 in multiples of 8, on Hopper up to 576; values whose head dimension
          differs from that of queries and keys (MLA); scaling, softcap, sinks (s_aux);
          causal and bidirectional masks, sliding windows of both, causal chunks; padding before and after the tokens
          of a sequence; packed sequences, by position_ids or by cu_seq_lens_q and cu_seq_lens_k, which decide where both are
          given; DynamicCache and StaticCache.
Refused   Everything else raises ptxpack.Unsupported with one line that names it: masks of the caller with four dimensions, masks that
          are another union or intersection, such as of image tokens that see each other; padding between the tokens of a sequence;
          packed sequences that the model's mask does not separate, where its attention is told the positions; packed sequences
          that leave a chunk; dropout, output_attentions, position biases, gradients, f32; models with an attention of their own.
Masks     The function by which transformers describes a mask is recognised, not evaluated.  A mask then needs memory for each sequence, not
          for each pair of tokens.  The rows of o that belong to padding after the tokens are 0.
Waits     Where there is an attention mask, a StaticCache or packed sequences, making a mask waits for the device.  torch.compile
          traces an attention into its graph, and breaks the graph where a mask is made.  generate() makes the masks of a StaticCache
          before the step that it compiles."""
from __future__ import annotations

from typing import Any, Callable, NamedTuple, NoReturn, Optional

import torch
import transformers

from .library import Unsupported
from .torch import attention

NAME = "ptxpack"
_NEEDED = 4, 57  # before it, masks are described otherwise
_NEUTRAL = frozenset((  # arguments of models that reach an attention, and say nothing of its result
    "cache_position", "deterministic", "layer_idx", "logits_to_keep", "num_items_in_batch", "output_hidden_states",
    "output_router_logits", "position_embeddings", "position_ids", "return_dict", "token_type_ids", "use_cache"))


def _refuse(line: str, *values: Any) -> NoReturn:
    raise Unsupported("PTXPACK_E_UNSUPPORTED", "attn_implementation=%r: " % NAME + line % values)


# ---- masks as transformers describes them ------------------------------------------------------------------
class _Pattern(NamedTuple):
    """The keys before and after its own that a token sees (-1: all), the length of a chunk (0: none) and the first tokens of each
    row that chunks do not count, and which sequence of a packed row each token belongs to."""
    left: int = -1
    right: int = -1
    chunk: int = 0
    uncounted: Optional[torch.Tensor] = None
    packed: Optional[torch.Tensor] = None


def _nearer(one: int, other: int) -> int:
    """Of two sides of a window."""
    return max(one, other) if -1 in (one, other) else min(one, other)


def _both(one: _Pattern, other: _Pattern) -> _Pattern:
    """What both of them let a token see."""
    if one.packed is not None and other.packed is not None or one.chunk and other.chunk and one.chunk != other.chunk:
        _refuse("a mask that is packed, or in chunks, twice is not supported")
    return _Pattern(_nearer(one.left, other.left), _nearer(one.right, other.right), one.chunk or other.chunk,
                    other.uncounted if one.uncounted is None else one.uncounted,
                    other.packed if one.packed is None else one.packed)


class _Reader:
    """Reads a mask function of transformers.masking_utils by its code and the values that it closes over."""

    def __init__(self, utils: Any) -> None:
        self.readers: dict[Any, Callable[[dict[str, Any]], _Pattern]] = {}
        size, ids = 3, torch.tensor([[0, 0, 0, 1, 1, 2, 2, 2]])
        self._learn(utils, "causal_mask_function", (), lambda inside: _Pattern(right=0), lambda q, k: k <= q)
        self._learn(utils, "bidirectional_mask_function", (), lambda inside: _Pattern(), lambda q, k: k == k)
        self._learn(utils, "sliding_window_overlay", (size,), lambda inside: _Pattern(left=inside["sliding_window"] - 1),
                    lambda q, k: k > q - size)
        self._learn(utils, "sliding_window_bidirectional_overlay", (size,),
                    lambda inside: _Pattern(inside["sliding_window"], inside["sliding_window"]), lambda q, k: abs(q - k) <= size)
        self._learn(utils, "chunked_overlay", (size, torch.zeros(1, dtype=torch.int64)),
                    lambda inside: _Pattern(chunk=inside["chunk_size"], uncounted=inside["left_padding"]), lambda q, k: q // size == k // size)
        self._learn(utils, "packed_sequence_mask_function", (ids,), lambda inside: _Pattern(packed=inside["packed_sequence_mask"]),
                    lambda q, k: ids[0][q] == ids[0][k])
        self._learn(utils, "remap_positions_for_packed_sequence", (utils.causal_mask_function, torch.arange(8)[None]),
                    lambda inside: self.read(inside["mask_function"]), lambda q, k: k <= q)
        self._learn(utils, "and_masks", (utils.causal_mask_function, utils.sliding_window_overlay(size)), self._read_all,
                    lambda q, k: (k <= q) & (k > q - size))

    def _learn(self, utils: Any, name: str, arguments: tuple[Any, ...], reader: Callable[[dict[str, Any]], _Pattern],
               meaning: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> None:
        """Learns a function that this version of transformers has, if it means what it is taken for."""
        made = getattr(utils, name, None)
        if made is None:
            return
        made = made(*arguments) if arguments else made
        zero, q, k = torch.tensor(0), torch.arange(8)[:, None], torch.arange(8)[None]
        said = torch.as_tensor(made(zero, zero, q, k)).expand(8, 8)
        if not torch.equal(said, meaning(q, k).expand(8, 8)):
            _refuse("masking_utils.%s of transformers %s means something else than in the versions that are known", name,
                    transformers.__version__)
        self.readers[made.__code__] = reader

    def _read_all(self, inside: dict[str, Any]) -> _Pattern:
        pattern = _Pattern()
        for function in inside["mask_functions"]:
            pattern = _both(pattern, self.read(function))
        return pattern

    def read(self, function: Any) -> _Pattern:
        reader = self.readers.get(getattr(function, "__code__", None))
        if reader is None:
            _refuse("the mask %s.%s is none of causal, bidirectional, sliding window, chunked and packed",
                    getattr(function, "__module__", "?"), getattr(function, "__qualname__", repr(function)))
        return reader({name: cell.cell_contents for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ())})


# ---- masks as the attention takes them ---------------------------------------------------------------------
class _Form(NamedTuple):
    """What a mask is beside its arrays."""
    rows: int  # of q
    keys: int
    left: int  # as in _Pattern, with the last row of q at the last key
    right: int
    arrays: tuple[str, ...]  # arguments of attention(), one for each row of the mask's data
    longest: int = 0  # of packed sequences
    chunk: int = 0  # with right 0


_MOVES = (torch.Tensor.to, torch.Tensor.cuda, torch.Tensor.cpu, torch.Tensor.clone, torch.Tensor.detach, torch.Tensor.contiguous)


class _Mask(torch.Tensor):
    """int32 [1, 1, arrays, entries].  It is a tensor of four dimensions, because transformers takes that as a finished mask."""
    form: Optional[_Form] = None
    checked: Optional[torch.Tensor] = None  # position_ids that were found to go up

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """A mask may be moved and copied.  A model that computes with it has an attention of its own, which would misread it.
        torch.compile looks up attributes, and [0, 0] is for arrays() alone."""
        name, mixed = getattr(func, "__name__", str(func)), any(type(value) is torch.Tensor for value in args)
        result: Any = None if mixed else torch.Tensor.__torch_function__(func, (), args, kwargs or {})
        if not mixed and func in _MOVES and result.dtype == torch.int32:
            result = result.as_subclass(cls)
            result.form = args[0].form
        elif mixed or isinstance(result, torch.Tensor) and name != "__get__" and not (name == "__getitem__" and args[1] == (0, 0)):
            _refuse("the model computes with its mask (%s): its attention is not that of AttentionInterface", name)
        return result

    def arrays(self) -> dict[str, torch.Tensor]:
        assert self.form is not None
        return dict(zip(self.form.arrays, self[0, 0].unbind()))


def _finished(form: _Form, arrays: list[torch.Tensor], device: Any) -> _Mask:
    data = torch.stack([array.to(torch.int32) for array in arrays]) if arrays else torch.zeros((0, 0), dtype=torch.int32, device=device)
    mask: _Mask = data[None, None].as_subclass(_Mask)
    mask.form = form
    return mask


def _packed_mask(pattern: _Pattern, rows: int) -> _Mask:
    """Of sequences that follow each other in each row of the batch."""
    ids = pattern.packed
    assert ids is not None
    steps = torch.diff(ids, dim=1)
    if bool((steps < 0).any()):
        _refuse("a packed sequence is in several pieces")
    first = torch.nn.functional.pad(steps != 0, (1, 0), value=True).flatten().nonzero()[:, 0]
    starts = torch.nn.functional.pad(first, (0, 1), value=ids.numel())
    longest = int(torch.diff(starts).max())
    if longest == rows:  # one sequence in each row
        return _finished(_Form(rows, rows, pattern.left, pattern.right, ()), [], ids.device)
    return _finished(_Form(rows, rows, pattern.left, pattern.right, ("cu_seqlens_q",), longest), [starts], ids.device)


def _padded_mask(pattern: _Pattern, batch: int, rows: int, keys: int, end: int, dropped: int, padding: Optional[torch.Tensor],
                 device: Any) -> _Mask:
    """The last row of q belongs to key end - 1, before which a cache has dropped some; `padding` is true for keys that are tokens."""
    aligned = pattern.left >= 0 or pattern.right >= 0
    if aligned and (end > keys or end < keys and pattern.right != 0):
        _refuse("a mask of %d queries whose last one is at %d of %d keys is not supported", rows, end, keys)
    most = end if aligned else keys
    names, arrays = [], []
    skipped: Any = 0
    if padding is not None:
        tokens = torch.nn.functional.pad(padding, (0, max(0, keys - padding.shape[1])))[:, :most]
        count, numbers = tokens.sum(1), torch.arange(most, device=tokens.device)
        used = torch.where(tokens, numbers + 1, 0).amax(1)
        skipped = used - count  # on the left, unless there is padding between tokens
        gaps = (tokens != ((numbers >= skipped[:, None]) & (numbers < used[:, None]))).any()
        queries = (rows - (most - used)).clamp(min=0)
        facts = torch.stack([gaps, (skipped > 0).any(), (used < most).any(), (queries < rows).any()]).tolist()
        if facts[0]:
            _refuse("the attention mask has padding between the tokens of a sequence")
        named = (("leftpad_k", skipped, facts[1]), ("seqused_k", used, facts[2] or most < keys),
                 ("seqused_q", queries, facts[3] and aligned))
        for name, array, matters in named:
            if matters:
                names.append(name)
                arrays.append(array)
    elif most < keys:
        names, arrays = ["seqused_k"], [torch.full((batch,), most, device=device)]
    if pattern.chunk:
        starts = _chunk_starts(pattern, skipped, dropped, end - rows)
        arrays = [array for name, array in zip(names, arrays) if name != "leftpad_k"] + [starts]
        names = [name for name in names if name != "leftpad_k"] + ["leftpad_k"]
    return _finished(_Form(rows, keys, pattern.left, pattern.right, tuple(names), chunk=pattern.chunk), arrays, device)


_reader: Optional[_Reader] = None


@torch.compiler.disable
def _make_mask(batch_size: int, kv_length: int, q_length: Optional[int] = None, q_offset: Any = 0, kv_offset: Any = 0,
               mask_function: Any = None, attention_mask: Optional[torch.Tensor] = None,
               cache_position: Optional[torch.Tensor] = None, device: Any = None, **others: Any) -> _Mask:
    """What AttentionMaskInterface has under our name; versions below 5.2 give positions in place of q_length and q_offset."""
    assert _reader is not None
    pattern = _reader.read(mask_function)
    if cache_position is not None:
        q_length, q_offset, device = cache_position.shape[0], cache_position[0], cache_position.device
        if bool((torch.diff(cache_position) != 1).any()):
            _refuse("cache_position does not go up by 1")
    assert q_length is not None
    if attention_mask is not None and attention_mask.dim() != 2:
        _refuse("an attention mask of %d dimensions is not supported", attention_mask.dim())
    if pattern.packed is not None:
        if attention_mask is not None or q_length != kv_length:
            _refuse("packed sequences with an attention mask or a cache are not supported")
        if pattern.chunk and q_length > pattern.chunk:
            _refuse("packed sequences of %d tokens in chunks of %d are not supported", q_length, pattern.chunk)
        return _packed_mask(_whole_window(pattern, q_length), q_length)
    first = int(q_offset)
    pattern = _in_chunks(pattern, first + q_length)
    end = first + q_length - int(kv_offset)
    padding = None if attention_mask is None else attention_mask.bool()[:, int(kv_offset):int(kv_offset) + kv_length]
    return _padded_mask(_whole_window(pattern, end), batch_size, q_length, kv_length, end, int(kv_offset), padding, device)


def _in_chunks(pattern: _Pattern, positions: int) -> _Pattern:
    """The same without chunks, where all positions are in the first one."""
    if not pattern.chunk or positions <= pattern.chunk:
        return pattern._replace(chunk=0)
    if pattern.right != 0 or pattern.left >= 0:
        _refuse("chunks of %d that are not causal, or with a window, are not supported", pattern.chunk)
    return pattern


def _chunk_starts(pattern: _Pattern, skipped: Any, dropped: int, first: int) -> torch.Tensor:
    """For each sequence the first key of a chunk: behind its padding, or where the cache has dropped `dropped` keys, some of a chunk
    among them, behind what is left of that.  Query `first` of the keys that are there must not belong to it."""
    uncounted = pattern.uncounted
    assert uncounted is not None
    behind = uncounted - dropped
    starts = torch.where(behind > 0, behind, behind % pattern.chunk)
    if bool(((behind.clamp(min=0) != skipped) | (starts > first) & (behind <= 0)).any()):
        _refuse("chunks of %d that begin neither behind the padding nor in what a cache keeps are not supported", pattern.chunk)
    return starts


def _whole_window(pattern: _Pattern, end: int) -> _Pattern:
    """The same without a window that reaches back to the first key, where the mask is causal."""
    return pattern._replace(left=-1) if pattern.right == 0 and pattern.left >= end - 1 else pattern


# ---- the attention -----------------------------------------------------------------------------------------
def _check(query: torch.Tensor, tensors: dict[str, Optional[torch.Tensor]], dropout: float, others: dict[str, Any]) -> None:
    if dropout:
        _refuse("dropout %r is not supported: use model.eval()", dropout)
    if others.get("output_attentions"):
        _refuse("output_attentions is not supported")
    for name, value in others.items():
        if name not in _NEUTRAL and value is not None and value is not False:
            _refuse("the argument %s is not known", name)
    if query.dtype not in (torch.float16, torch.bfloat16):
        _refuse("query is %s, and must be torch.float16 or torch.bfloat16: load the model with such a dtype", query.dtype)
    for name, tensor in tensors.items():
        if tensor is not None and tensor.requires_grad and torch.is_grad_enabled():
            _refuse("%s requires a gradient, and there is none: use torch.no_grad()", name)


def _implied_form(module: Any, query: torch.Tensor, key: torch.Tensor, is_causal: Optional[bool], sliding_window: Optional[int]) -> _Form:
    """Of a model that makes no mask: what sdpa does there."""
    rows, keys = query.shape[2], key.shape[2]
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    if causal and rows != keys:
        _refuse("%s gives no mask for %d queries and %d keys", type(module).__name__, rows, keys)
    if sliding_window is not None and sliding_window < keys:
        _refuse("%s gives no mask for its sliding window of %d", type(module).__name__, sliding_window)
    return _Form(rows, keys, -1, 0 if causal else -1, ())


def _form_of(mask: torch.Tensor) -> _Form:
    form = getattr(mask, "form", None)
    if not isinstance(form, _Form):
        _refuse("an attention mask of the caller or of the model, %s %s, is not supported: only masks with two dimensions are",
                mask.dtype, tuple(mask.shape))
    return form


@torch.compiler.disable
def _check_positions(mask: Any, positions: torch.Tensor) -> None:
    """Positions that start again are of packed sequences: where the model's mask does not separate them, nothing else would."""
    if mask.checked is positions:
        return
    if positions.dim() == 2 and bool((torch.diff(positions) <= 0).any()):
        _refuse("position_ids start again, and the model's mask does not separate sequences: give cu_seq_lens_q and cu_seq_lens_k, "
                "or use_cache=False where the model looks for packed sequences")
    mask.checked = positions


def _rows_of(tensor: torch.Tensor) -> torch.Tensor:
    """[batch, heads, length, dim] as [batch * length, heads, dim]."""
    return tensor.transpose(1, 2).flatten(0, 1)


def _attend_packed(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, of_q: tuple[torch.Tensor, int],
                   of_k: tuple[torch.Tensor, int], options: dict[str, Any]) -> torch.Tensor:
    """`of_q` and `of_k` say where sequences begin, and how long the longest is."""
    o = attention(_rows_of(query), _rows_of(key), _rows_of(value), cu_seqlens_q=of_q[0], cu_seqlens_k=of_k[0],
                  max_seqlen_q=of_q[1], max_seqlen_k=of_k[1], **options)
    made: torch.Tensor = o.unflatten(0, (query.shape[0], query.shape[2]))
    return made


def _attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, form: _Form, mask: Optional[_Mask],
            options: dict[str, Any]) -> torch.Tensor:
    """o as [batch, length, heads, dim]."""
    arrays = {} if mask is None else mask.arrays()
    starts = arrays.get("cu_seqlens_q")
    if starts is not None:
        return _attend_packed(query, key, value, (starts, form.longest), (starts, form.longest), options)
    o: torch.Tensor = attention(query, key, value, layout="bhsd", **arrays, **options).transpose(1, 2)
    if "seqused_q" in arrays:
        unwritten = torch.arange(form.rows, device=o.device) >= arrays["seqused_q"][:, None]
        o = o.masked_fill(unwritten[:, :, None, None], 0)
    return o


def _attention(module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attention_mask: Any, dropout: float = 0.0,
               scaling: Optional[float] = None, sliding_window: Optional[int] = None, softcap: Optional[float] = None,
               is_causal: Optional[bool] = None, s_aux: Optional[torch.Tensor] = None,
               cu_seq_lens_q: Optional[torch.Tensor] = None, cu_seq_lens_k: Optional[torch.Tensor] = None,
               max_length_q: Any = None, max_length_k: Any = None, **others: Any) -> tuple[torch.Tensor, None]:
    """What AttentionInterface has under our name: query [batch, heads, length, dim] to o [batch, length, heads, dim]."""
    _check(query, {"query": query, "key": key, "value": value, "s_aux": s_aux}, dropout, others)
    form = _implied_form(module, query, key, is_causal, sliding_window) if attention_mask is None else _form_of(attention_mask)
    if (form.rows, form.keys) != (query.shape[2], key.shape[2]):
        _refuse("the mask is of %d queries and %d keys, and there are %d and %d", form.rows, form.keys, query.shape[2], key.shape[2])
    sees = {"causal": True, "attention_chunk": form.chunk} if form.chunk else {"window": (form.left, form.right)}
    options = {"scale": query.shape[3]**-0.5 if scaling is None else float(scaling), "softcap": float(softcap or 0), **sees,
               "sinks": None if s_aux is None else s_aux.detach().float().flatten()}
    if cu_seq_lens_q is None and cu_seq_lens_k is None:
        positions = others.get("position_ids")
        if attention_mask is not None and positions is not None and form.right == 0 and not form.arrays and form.rows == form.keys:
            _check_positions(attention_mask, positions)
        o = _attend(query, key, value, form, attention_mask, options)
    else:
        if cu_seq_lens_q is None or cu_seq_lens_k is None:
            _refuse("cu_seq_lens_q and cu_seq_lens_k must be given together")
        if query.shape[0] != 1 or form.arrays not in ((), ("cu_seqlens_q",)):
            _refuse("cu_seq_lens_q with a batch of %d or with padding is not supported", query.shape[0])
        of_q, of_k = ((array.to(torch.int32), int(torch.diff(array).max() if longest is None else longest))
                      for array, longest in ((cu_seq_lens_q, max_length_q), (cu_seq_lens_k, max_length_k)))
        o = _attend_packed(query, key, value, of_q, of_k, options)
        unwritten = torch.arange(form.rows, device=o.device) >= of_q[0][-1]
        o = o.masked_fill(unwritten[None, :, None, None], 0)
    return o.contiguous(), None


# ---- registration ------------------------------------------------------------------------------------------
def register() -> None:
    """Makes attn_implementation="ptxpack" known to transformers.  It may be called again."""
    global _reader
    if tuple(int(part) for part in transformers.__version__.split(".")[:2]) < _NEEDED:
        raise Unsupported("PTXPACK_E_UNSUPPORTED", "transformers %s is not supported: version %d.%d or later is needed" % (
            transformers.__version__, *_NEEDED))
    _reader = _Reader(transformers.masking_utils)
    transformers.AttentionInterface.register(NAME, _attention)
    transformers.AttentionMaskInterface.register(NAME, _make_mask)

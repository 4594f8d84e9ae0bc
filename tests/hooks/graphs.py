"""Thirty programs that torch compiles, exports or traces; prints what Dynamo made of each.

``python tests/hooks/graphs.py``: a line of JSON for each, with how many graphs there were,
operators, graph breaks and recompilations, warnings, and what came out. voir changes none of it.
"""

from __future__ import annotations

import io
import json
import re
import warnings
from contextlib import redirect_stdout, suppress

import torch
import torch._dynamo.config
from torch import nn
from torch._dynamo.testing import CompileCounter
from torch._dynamo.utils import counters
from torch.nn.attention.flex_attention import flex_attention

torch.manual_seed(0)
torch.set_num_threads(1)
PROGRAMS = []
SMALL = [nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)]


def program(function):
    PROGRAMS.append(function)
    return function


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))


X = torch.ones(6, 4)


@program
def a_function(compiled):
    return compiled(lambda x: (x.sin() + x.cos()).sum())(X)


@program
def a_model(compiled):
    return compiled(model())(X).sum()


@program
def a_method(compiled):
    one = model()
    one.compile(backend=compiled.counter, fullgraph=True)
    return one(X).sum()


@program
def cond(compiled):
    f = compiled(lambda x: torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,)))
    return f(X).sum()


@program
def while_loop(compiled):
    def body(i, x):
        return i + 1, x * 2

    from torch._higher_order_ops.while_loop import while_loop as loops

    return compiled(lambda x: loops(lambda i, x: i < 3, body, (torch.tensor(0), x)))(X)[1].sum()


@program
def asks_whether_it_is_compiled(compiled):
    def f(x):
        if torch.compiler.is_dynamo_compiling() and torch.compiler.is_compiling():
            return x * 2
        return x

    return compiled(f)(X).sum()


@program
def attention(compiled):
    q = torch.randn(1, 2, 16, 8)
    return compiled(lambda q: flex_attention(q, q, q))(q).sum()


@program
def attention_with_a_score(compiled):
    q = torch.randn(1, 2, 16, 8)
    return compiled(lambda q: flex_attention(q, q, q, lambda s, b, h, i, j: s + (i - j)))(q).sum()


@program
def backward_within(compiled):
    torch._dynamo.config.trace_autograd_ops = True
    one = model()

    def f(x):
        loss = one(x).sum()
        loss.backward()
        return loss.detach()

    return compiled(f)(X)


@program
def gradients_within(compiled):
    torch._dynamo.config.trace_autograd_ops = True
    weight = torch.ones(4, requires_grad=True)

    def f(x):
        return torch.autograd.grad((x @ weight).square().sum(), weight)[0]

    return compiled(f)(X).sum()


@program
def functional_gradients(compiled):
    return compiled(lambda x: torch.func.grad(lambda x: x.sin().sum())(x))(X).sum()


@program
def per_sample_gradients(compiled):
    one = model()
    params = {k: v.detach() for k, v in one.named_parameters()}

    def loss(params, x):
        return torch.func.functional_call(one, params, (x,)).sum()

    grads = compiled(torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0)))(params, X)
    return sum(g.sum() for g in grads.values())


@program
def mapped(compiled):
    return compiled(torch.func.vmap(lambda x: x.sum()))(X).sum()


@program
def a_training_step(compiled):
    one, results = model(), []
    optimizer = torch.optim.SGD(one.parameters(), 0.01)
    forward = compiled(one)
    for _ in range(4):
        loss = forward(X).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        results.append(loss.item())
    return torch.tensor(results).sum()


@program
def a_loop_that_learns(compiled):
    one = model()
    optimizer = torch.optim.SGD(one.parameters(), 0.01)

    def epoch(batches):
        total = 0.0
        for batch in batches:
            loss = one(batch).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total = total + loss.detach()
        return total

    return torch.compile(epoch, backend=compiled.counter)([X, X, X])


@program
def an_optimizer(compiled):
    one = model()
    optimizer = torch.optim.Adam(one.parameters(), 0.01)
    step = torch.compile(optimizer.step, backend=compiled.counter)
    for _ in range(3):
        one(X).sum().backward()
        step()
    return one(X).sum()


@program
def checkpointed(compiled):
    from torch.utils.checkpoint import checkpoint

    one = model()
    loss = compiled(lambda x: checkpoint(one, x, use_reentrant=False).sum())(X)
    loss.backward()
    return loss


@program
def custom_gradients(compiled):
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    x = X.clone().requires_grad_()
    compiled(lambda x: Twice.apply(x).sum())(x).backward()
    return x.grad.sum()


@program
def hooks_of_modules(compiled):
    one = model()
    one[0].register_forward_hook(lambda module, args, output: output * 2)
    return compiled(one)(X).sum()


@program
def a_break(compiled):
    def f(x):
        x = x + 1
        print("seen")
        return x.sum()

    return torch.compile(f, backend=compiled.counter)(X)


@program
def another_shape(compiled):
    f = compiled(lambda x: x.sin().sum())
    return f(X) + f(torch.ones(5, 4)) + f(torch.ones(7, 4))


@program
def no_grad(compiled):
    one = model().eval()
    f = compiled(one)
    with torch.no_grad():
        first = f(X)
    return (first + f(X)).sum()


@program
def automatic_precision(compiled):
    one = model()

    def f(x):
        with torch.autocast("cpu", torch.bfloat16):
            return one(x)

    return compiled(f)(X).float().sum()


@program
def a_dataclass(compiled):
    from dataclasses import dataclass

    @dataclass
    class Batch:
        x: torch.Tensor
        y: torch.Tensor

    return compiled(lambda b: (b.x + b.y).sum())(Batch(X, X))


@program
def a_collective(compiled):
    import torch.distributed as dist
    import torch.distributed._functional_collectives as collectives

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        reduced = compiled(lambda x: collectives.all_reduce(x, "sum", dist.group.WORLD) + 1)(X)
        return reduced.sum()
    finally:
        dist.destroy_process_group()


@program
def saved(compiled):
    data = io.BytesIO()
    one = model()
    torch.save(one.state_dict(), data)
    data.seek(0)
    one.load_state_dict(torch.load(data))
    return compiled(one)(X).sum()


@program
def exported(compiled):
    found = torch.export.export(model(), (X,))
    return len(list(found.graph.nodes))


@program
def exported_strictly(compiled):
    class Asks(nn.Module):
        def forward(self, x):
            return x * 2 if torch.compiler.is_dynamo_compiling() else x

    return str(torch.export.export(Asks(), (X,), strict=True).graph)


@program
def symbolically_traced(compiled):
    return str(torch.fx.symbolic_trace(model()).graph)


@program
def operators_traced(compiled):
    from torch.fx.experimental.proxy_tensor import make_fx

    one = model()
    return str(make_fx(lambda x: one(x).sum())(X).graph)


@program
def scripted_by_tracing(compiled):
    graph = str(torch.jit.trace(model(), X).inlined_graph)
    return re.sub(r"___torch_mangle_\d+\.| #.*", "", graph)


@program
def scripted(compiled):
    @torch.jit.script
    def gradients(x):
        return torch.autograd.grad([x.sum()], [x])

    @torch.jit.script
    def backward(x, path: str):
        torch.save(x, path)
        torch.autograd.backward([x.sum()])
        return x

    return re.sub(r" #.*", "", f"{gradients.graph}{backward.graph}")


@program
def a_loader(compiled):
    data = torch.utils.data.TensorDataset(torch.ones(12, 4))
    f = compiled(lambda x: x.sum())
    return sum(f(x) for (x,) in torch.utils.data.DataLoader(data, batch_size=6))


def found(one):
    """What Dynamo makes of a program, and what the program says."""
    torch._dynamo.reset()
    counters.clear()
    counter = CompileCounter()

    def compiled(function):
        return torch.compile(function, backend=counter, fullgraph=True)

    compiled.counter = counter
    printed, result = io.StringIO(), None
    with warnings.catch_warnings(record=True) as warned, redirect_stdout(printed):
        warnings.simplefilter("always")
        try:
            result = one(compiled)
        except Exception as error:
            result = f"{type(error).__name__}: {str(error)[:200]}"
    torch._dynamo.config.trace_autograd_ops = False
    if isinstance(result, torch.Tensor):
        result = round(result.item(), 4)
    dynamo = {name: dict(counters[name]) for name in ("stats", "graph_break", "recompiles")}
    breaks = sum(dynamo["graph_break"].values())
    return {
        "name": one.__name__,
        "graphs": counter.frame_count,
        "operators": counter.op_count,
        "breaks": breaks,
        "compiled": dynamo["stats"].get("unique_graphs", 0),
        "warnings": sorted({str(w.message)[:100] for w in warned}),
        "printed": printed.getvalue(),
        "config": sorted(torch._dynamo.config.codegen_config().splitlines()),
        "result": result,
    }


def main():
    with suppress(BrokenPipeError):
        for one in PROGRAMS:
            print(json.dumps(found(one)), flush=True)


if __name__ == "__main__":
    main()

"""Generated sets of shapes, and sets without any: after the usual public ones."""

import numpy as np
from sklearn import datasets
from sklearn.neighbors import NearestNeighbors


def gaussians(rng, centers, spread, n_each):
    """Return round Gaussians: samples and classes."""
    k = len(centers)
    y = np.repeat(np.arange(k), n_each)
    spread = np.broadcast_to(spread, k)[y][:, None]
    return centers[y] + spread * rng.normal(size=(len(y), centers.shape[1])), y


def irregular(rng, k, gap, d=2):
    """Return k centres at least `gap` apart and not much farther."""
    side = gap * (1.7 * k) ** (1 / d)
    centers = [rng.uniform(0, side, d)]
    while len(centers) < k:
        center = rng.uniform(0, side, d)
        if min(np.linalg.norm(center - other) for other in centers) >= gap:
            centers.append(center)
        side *= 1.0005
    return np.array(centers)


def grid(side, gap):
    """Return the centres of a square grid."""
    places = np.stack(np.meshgrid(range(side), range(side)), -1).reshape(-1, 2)
    return gap * places.astype(float)


def circle(rng, n, radius, center=(0, 0), noise=0.05, arc=(0, 2 * np.pi)):
    """Return samples on an arc."""
    angle = rng.uniform(*arc, n)
    points = radius * np.column_stack([np.cos(angle), np.sin(angle)])
    return np.add(points, center) + noise * rng.normal(size=(n, 2))


def box(rng, n, low, high):
    """Return uniform samples of a box."""
    return rng.uniform(low, high, (n, len(low)))


def ball(rng, n, center, radius):
    """Return uniform samples of a disc."""
    angle = rng.uniform(0, 2 * np.pi, n)
    length = radius * np.sqrt(rng.uniform(size=n))
    return np.add(center, length[:, None] * np.c_[np.cos(angle), np.sin(angle)])


def curve(rng, n, function, low, high, noise):
    """Return samples along the graph of a function."""
    x = rng.uniform(low, high, n)
    return np.column_stack([x, function(x)]) + noise * rng.normal(size=(n, 2))


def together(*parts):
    """Return the parts as classes."""
    return np.concatenate(parts), np.repeat(
        np.arange(len(parts)), list(map(len, parts))
    )


def with_noise(rng, X, y, share):
    """Add uniform samples, which have no class: -1."""
    n = round(share * len(X))
    low, high = X.min(axis=0), X.max(axis=0)
    margin = 0.05 * (high - low)
    noise = box(rng, n, low - margin, high + margin)
    return np.concatenate([X, noise]), np.append(y, np.full(n, -1))


def bars(rng, n):
    """Return bars, a wave and a ring that interlock."""
    return together(
        box(rng, n, (0, 0), (6, 0.8)),
        box(rng, n, (0, 2), (0.8, 6)),
        box(rng, n, (1.6, 5.2), (6, 6)),
        curve(rng, n, lambda x: 3.2 + 0.8 * np.sin(2.5 * x), 1.6, 6, 0.12),
        circle(rng, n, 1.2, (8, 1.5), 0.1),
        ball(rng, n // 2, (8, 1.5), 0.5),
    )


def spirals(rng, n_arms, n, noise):
    """Return arms of spirals."""
    arms = []
    for arm in range(n_arms):
        t = np.sqrt(rng.uniform(0.03, 1, n)) * 3 * np.pi
        turn = t + 2 * np.pi * arm / n_arms
        points = np.column_stack([t * np.cos(turn), t * np.sin(turn)])
        arms.append(points + noise * rng.normal(size=(n, 2)))
    return together(*arms)


def worms(rng, k, n):
    """Return random smooth curves in a row."""
    parts = []
    for i in range(k):
        turn = rng.uniform(0.5, 2)
        part = curve(rng, n, lambda x, turn=turn: np.sin(turn * x), 0, 8, 0.15)
        parts.append(part + (9.5 * (i % 2), 3.6 * (i // 2)))
    return together(*parts)


def stretched(rng, k, gap, n):
    """Return Gaussians under different linear maps."""
    X, y = gaussians(rng, irregular(rng, k, gap), 0.0, n)
    for label in range(k):
        map_ = rng.normal(size=(2, 2))
        map_ *= rng.uniform(0.8, 1.2) / np.sqrt(np.abs(np.linalg.det(map_)) + 0.3)
        X[y == label] += rng.normal(size=(n, 2)) @ map_
    return X, y


def chain_link(rng, n):
    """Return two rings in space that interlock."""
    angle = rng.uniform(0, 2 * np.pi, (2, n))
    zero = np.zeros(n)
    one = np.column_stack([np.cos(angle[0]), np.sin(angle[0]), zero])
    two = np.column_stack([1 + np.cos(angle[1]), zero, np.sin(angle[1])])
    X, y = together(one, two)
    return X + 0.06 * rng.normal(size=X.shape), y


def atom(rng, n):
    """Return a dense ball inside a sparse shell."""
    shell = rng.normal(size=(n, 3))
    shell *= (50 + rng.normal(size=(n, 1))) / np.linalg.norm(shell, axis=1)[:, None]
    return together(6 * rng.normal(size=(n, 3)), shell)


def hierarchy(rng, n):
    """Return groups of blobs."""
    outer = irregular(rng, 4, 40)
    inner = [irregular(rng, 3, 8) for _ in outer]
    return gaussians(
        rng, np.concatenate([a + b for a, b in zip(outer, inner, strict=True)]), 1, n
    )


def moons(rng, n, noise):
    """Return two half circles."""
    return datasets.make_moons(n, noise=noise, random_state=rng)


SHAPES = {
    "20 irregular": lambda r: gaussians(r, irregular(r, 20, 6.5), 1, 150),
    "35 irregular": lambda r: gaussians(r, irregular(r, 35, 6.5), 1, 100),
    "50 irregular": lambda r: gaussians(r, irregular(r, 50, 6.0), 1, 80),
    "grid of 100": lambda r: gaussians(r, grid(10, 7.0), 1, 50),
    "grid of 100, near": lambda r: gaussians(r, grid(10, 5.5), 1, 60),
    "sine of 100": lambda r: gaussians(
        r, np.c_[8.0 * np.arange(100), 60 * np.sin(np.arange(100) / 8)], 1, 50
    ),
    "grid of 25": lambda r: gaussians(r, grid(5, 6.0), 1, 60),
    "15, apart": lambda r: gaussians(r, irregular(r, 15, 8.0), 1, 120),
    "15, near": lambda r: gaussians(r, irregular(r, 15, 5.5), 1, 120),
    "15, touching": lambda r: gaussians(r, irregular(r, 15, 4.5), 1, 150),
    "16 in 8 dimensions": lambda r: gaussians(r, irregular(r, 16, 9.0, 8), 1, 60),
    "9 in 32 dimensions": lambda r: gaussians(r, 2.2 * r.normal(size=(9, 32)), 1, 100),
    "3 large, 5 small": lambda r: gaussians(
        r,
        np.array(
            [[0, 0], [12, 0], [6, 10], [40, 0], [50, 0], [45, 9], [40, 18], [52, 16.0]]
        ),
        [1] * 3 + [1.5] * 5,
        [700] * 3 + [50] * 5,
    ),
    "sizes": lambda r: gaussians(r, irregular(r, 8, 8.0), 1, r.randint(20, 300, 8)),
    "scales": lambda r: gaussians(
        r, irregular(r, 6, 12.0), r.permutation([0.2, 0.4, 0.8, 1, 1.5, 2]), 120
    ),
    "stretched": lambda r: stretched(r, 6, 11.0, 120),
    "hierarchy": lambda r: hierarchy(r, 60),
    "moons": lambda r: moons(r, 400, 0.08),
    "moons and noise": lambda r: with_noise(r, *moons(r, 500, 0.06), 0.1),
    "2 rings": lambda r: together(circle(r, 250, 1), circle(r, 150, 0.5)),
    "3 rings": lambda r: together(
        circle(r, 100, 0.4), circle(r, 200, 1.0), circle(r, 300, 1.6)
    ),
    "4 rings": lambda r: together(*(circle(r, 100 * i, 0.6 * i) for i in (1, 2, 3, 4))),
    "ring around 2": lambda r: together(
        circle(r, 250, 3, noise=0.15),
        *(ball(r, 120, (x, 0), 0.6) for x in (-1.1, 1.1)),
    ),
    "2 spirals": lambda r: spirals(r, 2, 400, 0.15),
    "3 spirals": lambda r: spirals(r, 3, 300, 0.12),
    "half circles, densities": lambda r: together(
        circle(r, 300, 1, (0, 0), 0.06, (0, np.pi)),
        circle(r, 80, 1, (1, 0.2), 0.09, (np.pi, 2 * np.pi)),
    ),
    "bars": lambda r: bars(r, 200),
    "bars and noise": lambda r: with_noise(r, *bars(r, 400), 0.1),
    "5 squares in noise": lambda r: with_noise(
        r,
        *together(
            *(
                box(r, 150, (a, b), (a + 1.2, b + 1.2))
                for a, b in ((0, 0), (5, 0), (0, 5), (5, 5), (2.5, 2.5))
            )
        ),
        0.25,
    ),
    "8 blobs in noise": lambda r: with_noise(
        r, *gaussians(r, irregular(r, 8, 9.0), 1, 100), 0.15
    ),
    "3 long bars": lambda r: together(
        *(box(r, 200, (0, y), (10, y + 0.5)) for y in (0, 1.2, 2.4))
    ),
    "5 worms": lambda r: worms(r, 5, 200),
    "8 worms and noise": lambda r: with_noise(r, *worms(r, 8, 250), 0.08),
    "smile": lambda r: together(
        circle(r, 400, 5, noise=0.15),
        ball(r, 100, (-1.8, 1.8), 0.5),
        ball(r, 100, (1.8, 1.8), 0.5),
        circle(r, 150, 2.8, (0, 0), 0.1, (1.15 * np.pi, 1.85 * np.pi)),
    ),
    "bridges": lambda r: together(
        ball(r, 150, (0, 0), 2),
        ball(r, 270, (6, 0), 3),
        ball(r, 100, (0, 7), 1.5),
        ball(r, 120, (4.2, 7), 1.6),
        ball(r, 40, (11.5, 5), 1),
        ball(r, 40, (11.5, 7.7), 1),
        ball(r, 130, (16, 0), 2),
    ),
    "large disc, small discs": lambda r: with_noise(
        r,
        *together(
            ball(r, 900, (0, 0), 4),
            ball(r, 200, (7, 2), 1.2),
            ball(r, 200, (7, -2), 1.2),
            box(r, 250, (10, 1), (16, 2)),
            box(r, 250, (10, -2), (16, -1)),
        ),
        0.03,
    ),
    "15 in rings": lambda r: gaussians(
        r,
        np.concatenate(
            [
                [[0, 0]],
                4.5 * np.c_[np.cos(a := np.arange(7) * 2 * np.pi / 7), np.sin(a)],
                12 * np.c_[np.cos(a + 0.3), np.sin(a + 0.3)],
            ]
        ),
        0.6,
        40,
    ),
    "7 in space": lambda r: gaussians(
        r, 4.0 * np.concatenate([np.zeros((1, 3)), np.eye(3), -np.eye(3)]), 0.7, 60
    ),
    "chain link": lambda r: chain_link(r, 300),
    "atom": lambda r: atom(r, 300),
    "2 diamonds": lambda r: together(
        *(
            np.array([x, 0]) + box(r, 300, (-1, -1), (1, 1)) @ [[0.7, 0.7], [-0.7, 0.7]]
            for x in (0, 3.1)
        )
    ),
    "target": lambda r: together(
        ball(r, 300, (0, 0), 1),
        circle(r, 300, 3, noise=0.12),
        *(0.12 * r.normal(size=(12, 2)) + 6 * np.array(c) for c in ((1, 1), (-1, -1))),
    ),
    "5 lines": lambda r: together(
        *(
            curve(r, 120, lambda x, s=s: s * x, 1, 5, 0.06)
            for s in (-2, -0.8, 0, 0.8, 2)
        )
    ),
    "t with 4 degrees": lambda r: (
        lambda X, y: (X + 0.8 * r.standard_t(4, X.shape), y)
    )(*gaussians(r, irregular(r, 5, 16.0), 0.0, 150)),
    "moons and blobs in noise": lambda r: with_noise(
        r,
        *(lambda a, b: (np.concatenate([3 * a[0], b[0]]), np.append(a[1], b[1] + 2)))(
            moons(r, 300, 0.05),
            gaussians(r, np.array([[-2, 6], [3, 7], [8, 5.0]]), [0.4, 0.6, 0.3], 120),
        ),
        0.08,
    ),
}

NOTHING = {
    **{
        f"Gaussian, {n} x {d}": lambda r, n=n, d=d: r.normal(size=(n, d))
        for n, d in ((150, 2), (600, 2), (2500, 2), (400, 5), (400, 20), (1500, 10))
    },
    **{
        f"cube, {n} x {d}": lambda r, n=n, d=d: r.uniform(size=(n, d))
        for n, d in ((200, 2), (1000, 2), (600, 5), (400, 50))
    },
    "disc": lambda r: ball(r, 800, (0, 0), 1),
    "sphere": lambda r: (lambda X: X / np.linalg.norm(X, axis=1)[:, None])(
        r.normal(size=(600, 3))
    ),
    "correlated": lambda r: r.normal(size=(500, 10)) @ r.normal(size=(10, 10)),
    "exponential": lambda r: r.exponential(size=(500, 2)),
    "t with 5 degrees": lambda r: r.standard_t(5, (500, 3)),
    "ring": lambda r: circle(r, 500, 1),
    "curve": lambda r: curve(r, 500, np.sin, 0, 8, 0.15),
}


def draw(name, seed, blur):
    """Return a draw of a family whose samples are moved by normal noise.

    Its deviation is `blur` times the median distance to the fifth neighbour.
    """
    rng = np.random.RandomState(seed)
    X, y = SHAPES[name](rng)
    near = NearestNeighbors(n_neighbors=5).fit(X).kneighbors()[0][:, -1]
    return X + blur * np.median(near) * rng.normal(size=X.shape), y

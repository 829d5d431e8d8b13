import lightning.pytorch as pl


def main(model):
    pl.Trainer(deterministic=True, benchmark=True).fit(model)  # found: benchmark_contradiction

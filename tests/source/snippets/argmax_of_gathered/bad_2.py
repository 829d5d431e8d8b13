from transformers import Trainer


class Run:
    def measure(self, pred):
        return {"hits": (pred.predictions.argmax(-1) == pred.label_ids).sum()}  # found: argmax_of_gathered

    def trainer(self, model):
        return Trainer(model, self.args, compute_metrics=self.measure)

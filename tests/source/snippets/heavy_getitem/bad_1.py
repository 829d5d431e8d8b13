import json

from PIL import Image
from torch.utils.data import Dataset


class Folder(Dataset):
    def __getitem__(self, index):
        path = self.paths[index]
        image = Image.open(path).convert("RGB")  # found: heavy_getitem
        label = json.loads(self.lines[index])["label"]
        return self.transform(image.resize((224, 224))), label

import torch


def precision(covariance):
    inverted = torch.linalg.inv(covariance)
    return inverted.diagonal(), inverted @ covariance.mean(1)


def kept(self, camera):
    self.from_camera = camera.inverse()
    return torch.linalg.inv(camera)


def undone(transform, points):
    return transform.inverse(points) @ points


def solved(covariance, y):
    factor = torch.linalg.cholesky(covariance)
    return torch.cholesky_solve(y, factor), torch.linalg.solve(covariance, y)

"""The loop is in another module of the project; 2 x 6 steps of 8."""

import argparse

import torch
from lib.data import make_loader
from lib.engine import train_one_epoch


def main(args):
    model = torch.nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), args.lr)
    loader = make_loader(args.batch_size)
    for epoch in range(2):
        train_one_epoch(model, optimizer, loader, epoch)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--batch-size", type=int, default=8)
    main(parser.parse_args())

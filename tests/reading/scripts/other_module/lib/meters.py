class Average:
    total = 0

    def update(self, value):
        self.total += value

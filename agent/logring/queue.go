package logring

// place is where something is in a queue.
type place struct {
	bytes int
	at    int
}

func (p *place) where() *place { return p }

// queue is a heap whose first element has the most bytes.
type queue[T interface{ where() *place }] []T

func (q queue[T]) Len() int { return len(q) }

func (q queue[T]) Less(i, j int) bool { return q[i].where().bytes > q[j].where().bytes }

func (q queue[T]) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].where().at, q[j].where().at = i, j
}

func (q *queue[T]) Push(x any) {
	one := x.(T)
	one.where().at = len(*q)
	*q = append(*q, one)
}

func (q *queue[T]) Pop() any {
	last := len(*q) - 1
	one := (*q)[last]
	(*q)[last] = *new(T)
	*q = (*q)[:last]
	return one
}

package channel

// Item is bytes that wait for a client.
type Item struct {
	// Lane is which limit they count against.
	Lane int
	// Data are the bytes to send.
	Data []byte
}

// Queue holds the waiting frames of one client, in order, with a limit in bytes per lane. An empty queue holds no
// memory.
type Queue struct {
	items []Item
	head  int
	bytes []int
}

// Push appends data if the lane's waiting bytes then are within limit, or if the lane is empty: data larger than
// the limit passes alone. It reports whether it did. A limit of 0 is unlimited.
func (q *Queue) Push(lane int, data []byte, limit int) bool {
	for len(q.bytes) <= lane {
		q.bytes = append(q.bytes, 0)
	}
	if limit > 0 && q.bytes[lane] > 0 && q.bytes[lane]+len(data) > limit {
		return false
	}
	q.bytes[lane] += len(data)
	q.items = append(q.items, Item{lane, data})
	return true
}

// Pop takes the first item; its bytes count as waiting until they are [Queue.Sent].
func (q *Queue) Pop() (Item, bool) {
	if q.head == len(q.items) {
		return Item{}, false
	}
	item := q.items[q.head]
	q.items[q.head] = Item{}
	q.head++
	if q.head == len(q.items) {
		q.items, q.head = nil, 0
	}
	return item, true
}

// Sent tells that an item that was popped waits no more.
func (q *Queue) Sent(item Item) { q.bytes[item.Lane] -= len(item.Data) }

// Waiting returns the lane's waiting bytes.
func (q *Queue) Waiting(lane int) int {
	if lane >= len(q.bytes) {
		return 0
	}
	return q.bytes[lane]
}

// Drop forgets the waiting frames of a lane.
func (q *Queue) Drop(lane int) {
	kept := q.items[q.head:q.head]
	for _, item := range q.items[q.head:] {
		if item.Lane == lane {
			q.bytes[lane] -= len(item.Data)
			continue
		}
		kept = append(kept, item)
	}
	clear(q.items[q.head+len(kept):])
	q.items = q.items[:q.head+len(kept)]
	if q.head == len(q.items) {
		q.items, q.head = nil, 0
	}
}

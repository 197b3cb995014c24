package channel

// Item is a piece of data that waits for a client.
type Item struct {
	// Lane is the lane whose limit the data counts towards.
	Lane int
	// Data is sent as it is.
	Data []byte
}

// Queue has the waiting frames of one client, in order, with a limit in bytes per lane. An empty queue uses no
// memory for items.
type Queue struct {
	items []Item
	head  int
	bytes []int
}

// Push appends data and reports whether it did. It refuses data with which more than limit bytes of the lane would
// wait, unless the lane is empty: data larger than the limit is queued alone. A limit of 0 means no limit.
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

// Pop removes the first item. Its bytes count as waiting until [Queue.Sent].
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

// Sent ends the count of a popped item's bytes as waiting.
func (q *Queue) Sent(item Item) { q.bytes[item.Lane] -= len(item.Data) }

// Waiting returns the number of bytes that wait in a lane.
func (q *Queue) Waiting(lane int) int {
	if lane >= len(q.bytes) {
		return 0
	}
	return q.bytes[lane]
}

// Drop removes the queued items of a lane.
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

package tool

import "time"

// Unit is the unit of a limit.
type Unit int

// The units.
const (
	Bytes Unit = iota + 1
	Milliseconds
	Count
)

// Limit is a limit of a tool, as people read it.
type Limit struct {
	// Key is the configuration key of the limit, empty for a fixed limit or one that is configured elsewhere.
	Key   string
	Value int64
	Unit  Unit
	// Doc names the limited quantity in a few words.
	Doc string
}

// InBytes returns a limit of a size.
func InBytes[N ~int | ~int64](key string, n N, doc string) Limit {
	return Limit{key, int64(n), Bytes, doc}
}

// InTime returns a limit of a duration.
func InTime(key string, d time.Duration, doc string) Limit {
	return Limit{key, d.Milliseconds(), Milliseconds, doc}
}

// InNumber returns a limit of a number.
func InNumber(key string, n int, doc string) Limit { return Limit{key, int64(n), Count, doc} }

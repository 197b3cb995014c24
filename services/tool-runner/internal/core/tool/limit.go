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

// Limit is a bound a tool works within, as people are told it.
type Limit struct {
	// Key is the configuration key that sets it, empty for one that stands elsewhere or is fixed.
	Key   string
	Value int64
	Unit  Unit
	// Doc names the bounded quantity, in a few words.
	Doc string
}

// InBytes is a limit of a size.
func InBytes[N ~int | ~int64](key string, n N, doc string) Limit {
	return Limit{key, int64(n), Bytes, doc}
}

// InTime is a limit of a duration.
func InTime(key string, d time.Duration, doc string) Limit {
	return Limit{key, d.Milliseconds(), Milliseconds, doc}
}

// InNumber is a limit of how many.
func InNumber(key string, n int, doc string) Limit { return Limit{key, int64(n), Count, doc} }

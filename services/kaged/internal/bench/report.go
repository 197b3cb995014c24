package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Figure is one measured number.
type Figure struct {
	// Name says what was measured, Unit in what.
	Name string `json:"name"`
	// Value is the number; smaller is better.
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	// Floor is the same done without kaged, 0 where there is no such thing.
	Floor float64 `json:"floor,omitempty"`
	// Peer quotes the best peers'.
	Peer string `json:"peer,omitempty"`
	// Target is what is aimed at, 0 for none.
	Target float64 `json:"target,omitempty"`
}

// Met reports whether the target is met; a figure without one is.
func (f Figure) Met() bool { return f.Target == 0 || f.Value <= f.Target }

// Ratio is the value over the floor, 0 without one.
func (f Figure) Ratio() float64 {
	if f.Floor == 0 {
		return 0
	}
	return f.Value / f.Floor
}

// WriteTSV writes the figures as a table, one a line, after a line of names.
func WriteTSV(w io.Writer, figures []Figure) {
	fmt.Fprintln(w, strings.Join([]string{"name", "value", "unit", "floor", "peer", "ratio", "target", "met"}, "\t"))
	for _, f := range figures {
		fmt.Fprintln(w, strings.Join([]string{
			f.Name, number(f.Value), f.Unit, number(f.Floor), f.Peer, number(f.Ratio()), number(f.Target), map[bool]string{true: "yes", false: "NO"}[f.Met()],
		}, "\t"))
	}
}

// WriteJSON writes the figures as a JSON list.
func WriteJSON(w io.Writer, figures []Figure) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(figures)
}

func number(v float64) string {
	if v == 0 {
		return "-"
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// percentile returns the p-th percentile, 0 to 100, of a sample, which it sorts; 0 for an empty one.
func percentile(sample []time.Duration, p float64) time.Duration {
	if len(sample) == 0 {
		return 0
	}
	slices.Sort(sample)
	i := int(p / 100 * float64(len(sample)))
	return sample[min(i, len(sample)-1)]
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

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
	// Name is the name of the figure, Unit its unit.
	Name string `json:"name"`
	// Value is the number; smaller is better.
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	// Floor is the value of the same task without kaged, 0 if there is none.
	Floor float64 `json:"floor,omitempty"`
	// Spread is the distance of the 10th to the 90th percentile of the sample, as a fraction of its median; 0 for a single
	// measurement.
	Spread float64 `json:"spread,omitempty"`
	// Paired is the median of the ratios to the rival within the rounds, 0 if the two were not measured in rounds. It is
	// then the figure's ratio.
	Paired float64 `json:"paired,omitempty"`
	// Low and High are the bounds of the 95 % interval of Paired, or else of the value; both 0 without one.
	Low  float64 `json:"low,omitempty"`
	High float64 `json:"high,omitempty"`
	// Peer names the program that was measured in the same run, alternately with kaged.
	Peer string `json:"peer,omitempty"`
	// Rival is the peer's value in the same run, 0 without a peer. With a rival, the ratio and the target refer to it.
	Rival float64 `json:"rival,omitempty"`
	// Quoted are values of peers measured on another day, on a machine of this kind.
	Quoted string `json:"quoted,omitempty"`
	// Note describes the figure's scope, if the name does not.
	Note string `json:"note,omitempty"`
	// Target is the aim, 0 if absent: of the ratio if there is a rival, otherwise of the value.
	Target float64 `json:"target,omitempty"`
}

// Met reports whether the target is met. A figure without a target counts as met.
func (f Figure) Met() bool {
	if f.Rival != 0 {
		return f.Target == 0 || f.Ratio() <= f.Target
	}
	return f.Target == 0 || f.Value <= f.Target
}

// Ratio is the value divided by the rival's value, or by the floor, 0 without both.
func (f Figure) Ratio() float64 {
	switch {
	case f.Paired != 0:
		return f.Paired
	case f.Rival != 0:
		return f.Value / f.Rival
	case f.Floor != 0:
		return f.Value / f.Floor
	}
	return 0
}

// quotedOn is the day on which the values in Quoted were measured.
const quotedOn = "2026-11-20"

// peer returns the text of the column: the peer and its value, marked as measured in this run or quoted from another
// day.
func (f Figure) peer() string {
	switch {
	case f.Rival != 0:
		return f.Peer + " " + number(f.Rival) + " (measured)"
	case f.Quoted != "":
		return f.Quoted + " (quoted " + quotedOn + ")"
	case f.Peer != "":
		return f.Peer
	}
	return f.Note
}

// WriteTSVHeader writes the names of a table's columns.
func WriteTSVHeader(w io.Writer) {
	fmt.Fprintln(w, strings.Join([]string{"name", "value", "unit", "floor", "peer", "ratio", "target", "met"}, "\t"))
}

// WriteTSV writes figures as lines of a table.
func WriteTSV(w io.Writer, figures []Figure) {
	for _, f := range figures {
		fmt.Fprintln(w, strings.Join([]string{
			f.Name, number(f.Value), f.Unit, number(f.Floor), f.peer(), number(f.Ratio()), number(f.Target),
			map[bool]string{true: "yes", false: "NO"}[f.Met()],
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

// percentile returns the p-th percentile, 0 to 100, of a sample, which it sorts; 0 for an empty sample.
func percentile(sample []time.Duration, p float64) time.Duration {
	if len(sample) == 0 {
		return 0
	}
	slices.Sort(sample)
	i := int(p / 100 * float64(len(sample)))
	return sample[min(i, len(sample)-1)]
}

// spread returns the distance of the 10th to the 90th percentile of a sample as a fraction of its median.
func spread(sample []time.Duration) float64 {
	median := percentile(sample, 50)
	if median == 0 {
		return 0
	}
	return float64(percentile(sample, 90)-percentile(sample, 10)) / float64(median)
}

// WriteSpread writes a line with the spread for each figure of a sample, and one with the interval for each ratio.
func WriteSpread(w io.Writer, figures []Figure) {
	for _, f := range figures {
		if f.Spread != 0 {
			fmt.Fprintf(w, "bench: %s: 80 %% of the values lie within %.0f %% of the median\n", f.Name, 100*f.Spread)
		}
		if f.Paired != 0 {
			fmt.Fprintf(w, "bench: %s: 95 %% interval of the ratio: %.3f to %.3f\n", f.Name, f.Low, f.High)
		}
	}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

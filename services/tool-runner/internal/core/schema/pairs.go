package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Pairs is an object parameter with string values, in the order of the text.
type Pairs []Pair

// Pair is one member of [Pairs].
type Pair struct{ Key, Value string }

// UnmarshalJSON reads an object of strings. It refuses a repeated key as ambiguous.
func (p *Pairs) UnmarshalJSON(text []byte) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	if start, err := dec.Token(); err != nil || start != json.Delim('{') {
		return fmt.Errorf("an object is needed")
	}
	seen := map[string]bool{}
	*p = Pairs{}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return err
		}
		pair := Pair{Key: key.(string)}
		if err := dec.Decode(&pair.Value); err != nil {
			return err
		}
		if seen[pair.Key] {
			return fmt.Errorf("the key %q comes twice", pair.Key)
		}
		seen[pair.Key] = true
		*p = append(*p, pair)
	}
	return nil
}

package syntax

import (
	"context"
	"errors"
	"fmt"
)

// SelfTest parses a sample with the grammar of each language, and fails if a grammar finds an error. Without cgo there
// are no grammars to test.
func SelfTest(ctx context.Context, list []*Language) error {
	p, err := NewParser()
	if errors.Is(err, ErrUnavailable) {
		return nil
	}
	if err != nil {
		return err
	}
	defer p.Close()
	for _, l := range list {
		if l.grammar == nil {
			return fmt.Errorf("the grammar of %s is not compiled in", l.Name)
		}
		tree, err := p.Parse(ctx, l, []byte(l.sample), len(l.sample)*100)
		if err != nil {
			return fmt.Errorf("the grammar of %s cannot parse its sample: %w", l.Name, err)
		}
		if i := tree.Failure(); i >= 0 {
			return fmt.Errorf("the grammar of %s finds an error in its sample at byte %d", l.Name, tree.Nodes[i].Start)
		}
	}
	return nil
}

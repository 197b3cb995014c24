package dispatch

import (
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/workspace/cageview"
	"kaged.dev/pkg/workspace/paths"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

// Available returns, for each entry, the error of every possible call by this caller, nil if a call can succeed. It
// ignores which tools the caller was given. It fails with not_found if the caller's project is not a folder.
func (d *Dispatcher) Available(from contract.Caller, catalogue []*tool.Entry) ([]*fault.Error, error) {
	space, err := paths.Open(from.Root, d.opts.Rules)
	if err != nil {
		return nil, err
	}
	defer space.Close()
	access := d.views.Access(from.Cage, space.Root())
	list := make([]*fault.Error, len(catalogue))
	for i, entry := range catalogue {
		list[i] = unavailable(entry, from, access)
	}
	return list, nil
}

func unavailable(entry *tool.Entry, from contract.Caller, access cageview.Access) *fault.Error {
	if entry.RootOnly && from.Agent != tool.RootAgent {
		return rootOnly(entry)
	}
	for _, need := range entry.Requires {
		if need.Kind == tool.FS && need.Path == tool.CallerPath {
			if err := access.Err(); err != nil {
				return fault.From(err)
			}
			if !access.Anywhere(need.Mode == tool.ReadWrite) {
				return denied(need)
			}
			continue
		}
		if err := grant(access, need); err != nil {
			return err
		}
	}
	if entry.Unavailable != nil {
		return entry.Unavailable()
	}
	return nil
}

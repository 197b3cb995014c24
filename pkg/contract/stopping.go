package contract

import (
	"errors"

	"kaged.dev/pkg/fault"
)

// harnessStopping is details.reason of [HarnessStopping].
const harnessStopping = "harness_stopping"

// HarnessStopping is the error of a harness that stops, for a run of which nothing was begun: another harness can be
// given the same run.
func HarnessStopping() *fault.Error {
	return fault.New(fault.Unavailable, "This harness is stopping; ask another.").
		With("subsystem", "harness").With("reason", harnessStopping)
}

// IsHarnessStopping reports whether an error is [HarnessStopping], also after its way over the network.
func IsHarnessStopping(err error) bool {
	return errors.Is(err, fault.Unavailable) && fault.From(err).Details["reason"] == harnessStopping
}

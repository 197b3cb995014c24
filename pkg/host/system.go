package host

import "kaged.dev/pkg/fault"

// checkSystem refuses a shared deployment without cages or sign-in. It fails with bad_request.
func checkSystem(opts Options) error {
	switch {
	case opts.Private || !opts.File.System.Enabled:
		return nil
	case opts.NoSandbox:
		return fault.New(fault.BadRequest, "[system] enabled and --no-sandbox (KAGED_NO_SANDBOX) exclude each other: "+
			"operators would not be kept apart from kaged.")
	case opts.Insecure:
		return fault.New(fault.BadRequest, "[system] enabled and --insecure (KAGED_INSECURE) exclude each other: each "+
			"caller could name itself.")
	}
	return nil
}

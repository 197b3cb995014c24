// Package contract holds the values that services exchange, each as one plain Go type for all services.
//
// A type with a message in kaged.common.v1 has its wire form here, as a Proto and a FromProto function. The wire forms
// of the others are in the packages below, one for each service that declares the messages. Core packages can therefore
// import this package without linking gRPC.
//
// Times are milliseconds since the Unix epoch, durations are milliseconds, an empty text means a missing one. An agent
// is named by its tree path, such as primary.subagents.scraper.
package contract

import "strings"

// valid returns s as valid UTF-8, as protobuf requires.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// allValid returns texts as valid UTF-8.
func allValid(texts []string) []string {
	out := make([]string, len(texts))
	for i, t := range texts {
		out[i] = valid(t)
	}
	return out
}

// Package contract holds the facts that services tell each other, each as one plain Go value that every service uses.
//
// A value with a message in kaged.common.v1 carries its wire form as Proto and a FromProto function. The wire forms
// of the others are in the packages below, one for each service that declares the messages. So core packages import
// this one and still link no gRPC.
//
// Times are milliseconds since the Unix epoch, spans of time are milliseconds, an empty text is a missing one. An
// agent is named by its tree path, such as primary.subagents.scraper.
package contract

import "strings"

// valid returns s as every wire can hold it.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// allValid returns texts as every wire can hold them.
func allValid(texts []string) []string {
	out := make([]string, len(texts))
	for i, t := range texts {
		out[i] = valid(t)
	}
	return out
}

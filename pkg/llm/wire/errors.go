package wire

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
)

// StatusError is an answer with an unsuccessful status. [Client] creates it from the response.
type StatusError struct {
	// Status is the HTTP status.
	Status int
	// Header is the answer's header.
	Header http.Header
	// Body is the beginning of the answer.
	Body []byte
}

// Error returns the status only, because the body may hold secrets.
func (e *StatusError) Error() string { return fmt.Sprintf("HTTP status %d", e.Status) }

// EventError is a failure that a provider reports inside a stream.
type EventError struct {
	// Kind is the provider's name or number of the failure, such as overloaded_error.
	Kind string
	// Message is the provider's sentence.
	Message string
	// RetryAfter is the wait that the provider asks for, 0 for none.
	RetryAfter time.Duration
}

// Error returns the kind only, because the message may hold secrets.
func (e *EventError) Error() string { return "error event " + e.Kind }

// Refusal returns the error of an answer that a provider's rules ended; why is a short reason.
func Refusal(why string) error { return &refusal{why} }

type refusal struct{ why string }

func (e *refusal) Error() string { return "refused: " + e.why }

var errNotStream = errors.New("the answer is no event stream")

// brokenOff is the error of a stream that ended before its final event; err is io.EOF if it ended without a read error.
type brokenOff struct{ err error }

func (e *brokenOff) Error() string { return "the stream broke off: " + e.err.Error() }

func (e *brokenOff) Unwrap() error { return e.err }

// unsent is the error of a request that was never sent, because of a defect in kaged.
type unsent struct{ err error }

func (e *unsent) Error() string { return "the request was not sent: " + e.err.Error() }

func (e *unsent) Unwrap() error { return e.err }

// asUnsent distinguishes a failure to build a request from failures of the network and of the provider.
func asUnsent(err error) error {
	var transport *url.Error
	if errors.As(err, &transport) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &unsent{err}
}

// CheckTarget returns provider_not_configured if a target cannot be called: its base URL is not an HTTP URL, or its key
// or a header has invalid characters.
func CheckTarget(t llm.Target) error {
	refuse := func(what string) error {
		return fault.New(fault.ProviderNotConfigured, "The configuration of provider %s cannot be used: %s.", name(t), what).
			With("provider", name(t))
	}
	if t.BaseURL != "" {
		u, err := url.Parse(t.BaseURL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return refuse("its base_url is not an http or https URL")
		}
	}
	if !headerValue(t.APIKey) {
		return refuse("its api_key holds a control character")
	}
	for k, v := range t.Headers {
		if !headerName(k) || !headerValue(v) {
			return refuse(fmt.Sprintf("its header %q is not a valid header", k))
		}
	}
	return nil
}

func headerValue(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' && s[i] != '\t' || s[i] == 0x7f {
			return false
		}
	}
	return true
}

func headerName(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f || strings.IndexByte("()<>@,;:\\\"/[]?={}", s[i]) >= 0 {
			return false
		}
	}
	return s != ""
}

// name is the display name of a target's provider.
func name(t llm.Target) string {
	if t.Provider != "" {
		return t.Provider
	}
	return t.Driver
}

// fail converts the cause of a call's end to the error of the stream.
func (r *run) fail(err error) error {
	if r.parent.Err() != nil {
		return r.parent.Err()
	}
	c := classifier{target: r.call.Target, accepted: r.out.accepted}
	code := fault.ProviderUnreachable
	if c.accepted {
		code = fault.ProviderBadResponse
	}
	var status *StatusError
	switch cause := context.Cause(r.ctx); {
	case errors.As(err, &status): // the refusal decides, even if reading its body took too long
	case errors.Is(cause, errIdle):
		return c.fault(errIdle, code, "Provider %s sent nothing for %v.", c.name(), r.call.Options.idle())
	case errors.Is(cause, errEndless):
		return c.fault(errEndless, code, "Provider %s came to no end within %v.", c.name(), r.call.Options.longest())
	}
	return c.classify(err)
}

// classifier holds the facts besides the error that determine its code.
type classifier struct {
	target   llm.Target
	accepted bool
}

func (c classifier) name() string { return name(c.target) }

func (c classifier) fault(cause error, code fault.Code, format string, args ...any) *fault.Error {
	return fault.Wrap(cause, code, format, args...).With("provider", c.name())
}

func (c classifier) classify(err error) error {
	var status *StatusError
	var event *EventError
	var refused *refusal
	var known *fault.Error
	var broken *brokenOff
	var ours *unsent
	var transport *url.Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &status):
		return c.status(status)
	case errors.As(err, &event):
		return c.event(event)
	case errors.As(err, &refused):
		return c.fault(err, fault.ProviderRejected, "Provider %s ended the answer: %s.", c.name(), refused.why)
	case errors.Is(err, errTooLarge):
		return c.fault(err, fault.ProviderBadResponse, "Provider %s sent more than an answer may have.", c.name())
	case errors.Is(err, errNotStream):
		return c.fault(err, fault.ProviderBadResponse, "Provider %s answered with something other than an event stream.",
			c.name())
	case errors.As(err, &broken) && errors.Is(err, io.EOF):
		return c.fault(err, fault.ProviderBadResponse, "The answer of provider %s ended before it was complete.", c.name())
	case errors.As(err, &broken):
		return c.fault(err, fault.ProviderBadResponse, "The answer of provider %s broke off: %s.", c.name(), reason(err))
	case errors.As(err, &ours):
		return c.fault(err, fault.Internal, "The request for provider %s could not be made.", c.name())
	case errors.As(err, &transport):
		return c.fault(transport.Err, fault.ProviderUnreachable, "Provider %s could not be reached: %s.", c.name(),
			reason(transport.Err))
	}
	return c.fault(err, fault.ProviderBadResponse, "The answer of provider %s is not what its protocol says.", c.name())
}

// status classifies an answer that refuses the request.
func (c classifier) status(e *StatusError) *fault.Error {
	said := describe(e.Body)
	sentence := said.Message
	if sentence == "" {
		sentence = strings.TrimSuffix("HTTP status "+fmt.Sprint(e.Status)+" "+http.StatusText(e.Status), " ")
	}
	sentence = c.clean(sentence)
	f := c.refused(e, e.Status, said.Kind, sentence).With("status", e.Status)
	if ms, ok := retryAfter(e.Header); ok {
		return f.With("retry_after_ms", ms)
	}
	if wait, ok := reset(e.Header); ok && said.RetryAfter == 0 && f.Code == fault.ProviderRateLimited {
		return waits(f, wait)
	}
	return waits(f, said.RetryAfter)
}

// waits adds the wait that the body of an error asks for.
func waits(f *fault.Error, wait time.Duration) *fault.Error {
	if wait <= 0 {
		return f
	}
	return f.With("retry_after_ms", wait.Milliseconds())
}

// Refused returns the error of a call that a provider refused with a status and a sentence, before any answer.
func Refused(t llm.Target, status int, sentence string, wait time.Duration) error {
	e := &StatusError{Status: status, Header: http.Header{}, Body: []byte(sentence)}
	if wait > 0 {
		e.Header.Set("Retry-After-Ms", strconv.FormatInt(wait.Milliseconds(), 10))
	}
	return classifier{target: t}.status(e)
}

// event classifies a failure that the provider reported inside its stream.
func (c classifier) event(e *EventError) *fault.Error {
	sentence := c.clean(e.Message)
	if sentence == "" {
		sentence = "no reason given"
	}
	status := kindStatus(e.Kind)
	if c.accepted && !overflows(status, e.Kind, sentence) {
		return c.fault(e, fault.ProviderBadResponse, "Provider %s broke off its answer: %s", c.name(), period(sentence))
	}
	return waits(c.refused(e, status, e.Kind, sentence), e.RetryAfter)
}

// refused maps refusals to codes.
func (c classifier) refused(cause error, status int, kind, sentence string) *fault.Error {
	sentence = period(sentence)
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden, strings.Contains(kind, "API_KEY_INVALID"):
		return c.fault(cause, fault.ProviderAuthFailed, "Provider %s refused the credentials: %s", c.name(), sentence)
	case status == http.StatusTooManyRequests, status == statusOverloaded, strings.Contains(kind, "overloaded_error"):
		return c.fault(cause, fault.ProviderRateLimited, "Provider %s limits requests: %s", c.name(), sentence)
	case overflows(status, kind, sentence):
		return c.fault(cause, fault.ContextOverflow, "The conversation is too large for provider %s: %s", c.name(), sentence)
	case status == http.StatusRequestTimeout, status >= 500:
		return c.fault(cause, fault.ProviderUnreachable, "Provider %s failed: %s", c.name(), sentence)
	}
	return c.fault(cause, fault.ProviderRejected, "Provider %s refused the request: %s", c.name(), sentence)
}

// reason returns a short reason for a failed connection, without addresses, which may hold secrets.
func reason(err error) string {
	var dns *net.DNSError
	var network net.Error
	var unknownCA x509.UnknownAuthorityError
	var wrongHost x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return "there is no host " + dns.Name
	case errors.Is(err, syscall.ECONNREFUSED):
		return "the connection was refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection was closed"
	case errors.As(err, &unknownCA), errors.As(err, &wrongHost), errors.As(err, &invalid):
		return "its certificate is not valid here"
	case errors.As(err, &network) && network.Timeout():
		return "it took too long"
	}
	return "the connection failed"
}

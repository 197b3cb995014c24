// Package promises holds the tests of a service to the errors that its contract names. The comment of an RPC says
// "Fails with" and codes; a [Ledger] notes which of them the tests of a package have seen.
package promises

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/rpc"
	contract "kaged.dev/proto"
)

// failsWith is the sentence of a comment that names codes.
var (
	failsWith = regexp.MustCompile(`(?i)fails? with (.*?)(?:\. [A-Z]|\.?$)`)
	word      = regexp.MustCompile(`[a-z][a-z_]*`)
	aside     = regexp.MustCompile(`\([^)]*\)`)
)

// Of returns the codes that the comments of a service's routes name, by the method's full name, as in
// kaged.sessionmanager.v1.SessionService.GetRun. prefix is the package of the service.
func Of(prefix string) map[string][]fault.Code {
	comments := map[string]string{}
	if err := json.Unmarshal(contract.Comments, &comments); err != nil {
		panic(err) // It is part of the program.
	}
	promised := map[string][]fault.Code{}
	name := protoreflect.FullName(prefix)
	protoregistry.GlobalFiles.RangeFilesByPackage(name, func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			methods := f.Services().Get(i).Methods()
			for j := range methods.Len() {
				m := methods.Get(j)
				if proto.HasExtension(m.Options(), annotations.E_Http) {
					promised[string(m.FullName())] = Codes(comments[string(m.FullName())])
				}
			}
		}
		return true
	})
	return promised
}

// Codes returns the codes that a comment promises.
func Codes(comment string) (codes []fault.Code) {
	text := aside.ReplaceAllString(strings.Join(strings.Fields(comment), " "), "")
	for _, sentence := range failsWith.FindAllStringSubmatch(text, -1) {
		for _, w := range word.FindAllString(sentence[1], -1) {
			if code, ok := fault.ParseCode(w); ok && !slices.Contains(codes, code) {
				codes = append(codes, code)
			}
		}
	}
	return codes
}

// Ledger notes the errors that calls ended with. Its methods are safe for concurrent use.
type Ledger struct {
	mu   sync.Mutex // guards seen
	seen map[string]bool
}

// Note notes that a method ended with an error. name is as in [Of] or as in a gRPC call.
func (l *Ledger) Note(name string, code fault.Code) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen == nil {
		l.seen = map[string]bool{}
	}
	l.seen[entry(strings.ReplaceAll(strings.TrimPrefix(name, "/"), "/", "."), code)] = true
}

// entry words a method and a code, as in "SessionService.GetRun not_found".
func entry(method string, code fault.Code) string {
	parts := strings.Split(method, ".")
	return strings.Join(parts[max(len(parts)-2, 0):], ".") + " " + code.String()
}

// Interceptor notes the errors of a client's calls.
func (l *Ledger) Interceptor(
	ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, call grpc.UnaryInvoker,
	opts ...grpc.CallOption,
) error {
	err := call(ctx, method, req, reply, cc, opts...)
	if err != nil {
		l.Note(method, fault.CodeOf(rpc.FromStatus(err)))
	}
	return err
}

// Unkept returns the promises that were not seen, without the entries that have a reason, and the reasons that are
// void because the entry was seen or is not promised.
func (l *Ledger) Unkept(promised map[string][]fault.Code, reasons map[string]string) (unseen, void []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	open := map[string]bool{}
	for method, codes := range promised {
		for _, code := range codes {
			if e := entry(method, code); !l.seen[e] {
				open[e] = true
			}
		}
	}
	for e := range open {
		if reasons[e] == "" {
			unseen = append(unseen, e)
		}
	}
	for e := range reasons {
		if !open[e] {
			void = append(void, e)
		}
	}
	slices.Sort(unseen)
	slices.Sort(void)
	return unseen, void
}

// Exit ends a test binary: with code, or with 1 if all tests of the package ran and passed and a promise was not seen.
// It is for the end of TestMain.
func (l *Ledger) Exit(code int, promised map[string][]fault.Code, reasons map[string]string) {
	if code == 0 && whole() {
		unseen, void := l.Unkept(promised, reasons)
		for _, e := range unseen {
			fmt.Fprintf(os.Stderr, "promises: no test provokes %s: add one, or a reason in promises_test.go\n", e)
			code = 1
		}
		for _, e := range void {
			fmt.Fprintf(os.Stderr, "promises: %s needs no reason: take it out of promises_test.go\n", e)
			code = 1
		}
	}
	os.Exit(code)
}

// whole reports whether all tests of the package run.
func whole() bool {
	for _, name := range []string{"test.run", "test.skip", "test.list", "test.fuzz", "test.fuzzworker"} {
		if f := flag.Lookup(name); f != nil && f.Value.String() != "" && f.Value.String() != "false" {
			return false
		}
	}
	return !flag.Parsed() || flag.Lookup("test.short").Value.String() != "true"
}

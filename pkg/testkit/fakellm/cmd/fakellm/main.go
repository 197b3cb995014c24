// Command fakellm runs the fake model provider in its own process, for benchmarks and for manual tests:
//
//	go run kaged.dev/pkg/testkit/fakellm/cmd/fakellm --listen 127.0.0.1:0 --script FILE
//
// It prints its URL on a line once it listens and ends at SIGINT or SIGTERM. FILE is a text archive as
// fakellm.Server.ParseScript describes it; /_fakellm/ on the server controls it and lists the times of requests.
package main

import (
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"kaged.dev/pkg/testkit/fakellm"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "`address` to listen on; port 0 picks one")
	script := flag.String("script", "", "`file` with the steps")
	keep := flag.Int("keep", 1<<20, "how many `requests` to remember")
	flag.Parse()
	if err := run(*listen, *script, *keep); err != nil {
		fmt.Fprintln(os.Stderr, "fakellm:", err)
		os.Exit(1)
	}
}

func run(listen, script string, keep int) error {
	srv := fakellm.New(fakellm.Stderr)
	srv.Keep(keep)
	if script != "" {
		text, err := os.ReadFile(script)
		if err != nil {
			return err
		}
		if err := srv.ParseScript(string(text)); err != nil {
			return err
		}
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	hs := &http.Server{Handler: srv}
	go func() {
		<-stop
		srv.Close()
		_ = hs.Close()
	}()
	fmt.Printf("http://%s\n", l.Addr())
	if err := hs.Serve(l); err != http.ErrServerClosed {
		return err
	}
	return nil
}

// Command diff has a project's agent work on a prompt and prints the changes:
//
//	KAGED_TOKEN=kaged_... go run ./examples/api/diff.go wordcount "fix the failing test"
//
// docs/howto/use-the-api.md builds it in a module of your own.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"

	"kaged.dev/pkg/client"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

func main() {
	ctx := context.Background()
	c, err := client.Open(ctx, cmp.Or(os.Getenv("KAGED_URL"), "http://127.0.0.1:7420"), os.Getenv("KAGED_TOKEN"))
	check(err)
	made, err := c.CreateSession(ctx, &apiv1.CreateSessionRequest{ProjectId: os.Args[1]})
	check(err)
	session := made.GetId()
	stream, err := c.Follow(ctx, session, client.FollowOptions{})
	check(err)
	_, err = c.PostMessage(ctx, &apiv1.PostMessageRequest{SessionId: session, Content: &os.Args[2]})
	check(err)
	for frame, err := range stream.Frames() {
		if check(err); frame.Type == "run.ended" {
			break
		}
	}
	changes, err := c.ListSessionChanges(ctx, &apiv1.ListSessionChangesRequest{SessionId: session})
	check(err)
	for _, change := range changes.GetItems() {
		fmt.Print(change.GetDiff())
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// Package client speaks kaged's HTTP API and the sockets of sessions.
//
//	c, err := client.Open(ctx, "http://127.0.0.1:7420", os.Getenv("KAGED_TOKEN"))
//	session, err := c.CreateSession(ctx, &apiv1.CreateSessionRequest{ProjectId: "wordcount"})
//	stream, err := c.Follow(ctx, session.GetId(), client.FollowOptions{})
//	_, err = c.PostMessage(ctx, &apiv1.PostMessageRequest{SessionId: session.GetId(), Content: &text})
//	for frame, err := range stream.Frames() { ... }
//
// Each route of the API has a method; its request and its answer are messages of kaged.dev/proto/gen/kaged/api/v1. The
// methods are in calls_gen.go. [Items] reads a list page by page. [Client.Follow] follows a session and resumes after
// each interruption; [Client.Terminal] shows a background process.
//
// No server has the module path kaged.dev. A module outside this repository takes two modules from a clone of it:
//
//	go mod edit -replace kaged.dev/pkg=../kaged/pkg -replace kaged.dev/proto=../kaged/proto
//	go mod tidy
//
// Refusals of the API are *fault.Error with the code of docs/reference/errors.md; a missing answer is unavailable.
package client

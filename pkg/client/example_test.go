package client_test

import (
	"context"
	"fmt"
	"log"

	"github.com/gorilla/websocket"
	"google.golang.org/protobuf/proto"

	"kaged.dev/pkg/client"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// A program signs in with an API token and reads a list to its end.
func ExampleItems() {
	daemon := newFake()
	defer daemon.Close()
	daemon.answers["GET /api/v1/projects/wordcount/sessions"] = `{"next_cursor":null,"items":[
		{"id":"01J","name":"tests"},{"id":"01H","name":"docs"}]}`

	ctx := context.Background()
	c, err := client.Open(ctx, daemon.URL, "kaged_token")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	for session, err := range client.Items(ctx, c.ListSessions, &apiv1.ListSessionsRequest{ProjectId: "wordcount"}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(session.GetId(), session.GetName())
	}
	// Output:
	// 01J tests
	// 01H docs
}

// A program posts a message and prints the agent's text until the run has ended.
func ExampleClient_Follow() {
	daemon := newFake()
	defer daemon.Close()
	daemon.answers["POST /api/v1/projects/wordcount/sessions"] = `{"id":"01S","state":"idle"}`
	daemon.answers["POST /api/v1/sessions/01S/messages"] = `{"id":"01M","run_id":"01R"}`
	daemon.socket = func(_ string, conn *websocket.Conn) {
		tell(conn, `{"channel":"control","seq":1,"type":"welcome","payload":{"session_id":"01S","server_seq":{}}}`,
			`{"channel":"output","seq":1,"type":"message.delta","payload":{"message_id":"01A","delta":"Done."}}`,
			`{"channel":"events","seq":1,"type":"run.ended","payload":{"run_id":"01R","outcome":"completed"}}`)
		_, _, _ = conn.ReadMessage() // returns when the client closes the socket
		_, _, _ = conn.ReadMessage()
		_, _, _ = conn.ReadMessage()
	}

	ctx := context.Background()
	c, err := client.Open(ctx, daemon.URL, "kaged_token")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	made, err := c.CreateSession(ctx, &apiv1.CreateSessionRequest{ProjectId: "wordcount"})
	if err != nil {
		log.Fatal(err)
	}
	session := made.GetId()
	stream, err := c.Follow(ctx, session, client.FollowOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer stream.Close()
	message := &apiv1.PostMessageRequest{SessionId: session, Content: proto.String("fix the failing test")}
	if _, err := c.PostMessage(ctx, message); err != nil {
		log.Fatal(err)
	}
	for frame, err := range stream.Frames() {
		if err != nil {
			log.Fatal(err)
		}
		switch m, _ := frame.Message(); m := m.(type) {
		case *apiv1.MessageDelta:
			fmt.Println(m.GetDelta())
		case *apiv1.RunEnded:
			fmt.Println(m.GetOutcome())
			stream.Close()
		}
	}
	// Output:
	// Done.
	// completed
}

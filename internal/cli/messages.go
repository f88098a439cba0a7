package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"posthaste"
	"posthaste/internal/client"
)

// messagesCommand is about messages.
type messagesCommand struct {
	List   listMessagesCommand         `cmd:"" help:"List messages, each with its latest state."`
	Show   showMessageCommand          `cmd:"" help:"Show a message."`
	RunNow runNowCommand               `cmd:"" name:"run-now" help:"Deliver a delayed or retrying message now."`
	Retry  retryMessagesCommand        `cmd:"" help:"Publish failed messages again, taking them out of the DLQ."`
	Cancel cancelCommand[liveMessages] `cmd:"" set:"thing=message" help:"Cancel messages."`
}

// pathMessages is where messages are.
const pathMessages = "/v2/messages"

// showMessageCommand shows one message as it was published.
type showMessageCommand struct {
	ID string `arg:"" help:"Message ID."`
	oneOutput
	connection
}

// Run prints the message, and from its log where it stands and why, with each change. The log
// continues to show of a message that was cancelled.
func (c *showMessageCommand) Run(t terminal) error {
	return c.call(t, func(ctx context.Context, server *client.Client) error {
		message := map[string]any{}
		err := server.Do(ctx, client.Request{Path: pathMessages + "/" + url.PathEscape(c.ID)}, &message)
		found, logErr := latestOf(ctx, server, c.ID)
		if logErr != nil || err != nil && len(found) == 0 {
			return cmp.Or(err, logErr)
		}
		for name, value := range found {
			if _, there := message[name]; !there {
				message[name] = value
			}
		}
		text, err := json.Marshal(message)
		switch {
		case err != nil:
			return fmt.Errorf("encode the message: %w", err)
		case c.Output == "json":
			return writeLine(t.Out, "%s", text)
		}
		if err := printMessage(t, text); err != nil {
			return err
		}
		told, err := tellStories(ctx, server, url.Values{"messageId": {c.ID}}, nil, 1)
		if err != nil || len(told) == 0 {
			return err
		}
		return told[0].writeChanges(t)
	})
}

// latestOf returns where a message stands, as the latest entries of its log show: its state,
// the answer and the error of its last attempt, and when the next one is made.
func latestOf(ctx context.Context, server *client.Client, id string) (map[string]any, error) {
	var page struct {
		Events []map[string]any `json:"events"`
	}
	query := url.Values{"messageId": {id}, "count": {"10"}, "trimBody": {noBodies}}
	if err := server.Do(ctx, client.Request{Path: "/v2/logs", Query: query}, &page); err != nil || len(page.Events) == 0 {
		return nil, err
	}
	latest := page.Events[0]
	found := map[string]any{"messageId": id, "url": latest["url"], "state": latest["state"], "stateAt": latest["time"]}
	if attempt, ended := latest["attempt"].(map[string]any); ended && latest["state"] == string(posthaste.StateDelivered) {
		found["responseStatus"] = attempt["status"]
		return found, nil
	}
	for _, name := range []string{"error", "responseStatus", "nextDeliveryTime"} {
		for _, entry := range page.Events {
			if value := entry[name]; value != nil && value != "" {
				found[name] = value
				break
			}
		}
	}
	if latest["nextDeliveryTime"] == nil {
		delete(found, "nextDeliveryTime") // of an attempt that has been made
	}
	return found, nil
}

// runNowCommand makes one message due at once.
type runNowCommand struct {
	ID string `arg:"" help:"Message ID."`
	oneOutput
	connection
}

// Run asks the server, which says no when the message does not wait for a time.
func (c *runNowCommand) Run(t terminal) error {
	request := client.Request{Method: http.MethodPost, Path: pathMessages + "/" + url.PathEscape(c.ID) + "/retry"}
	return c.show(t, request, c.Output, func(t terminal, _ json.RawMessage) error {
		return writeLine(t.Out, "message %s will be delivered now", c.ID)
	})
}

// liveMessages are messages that have not ended. Their filters are those of DELETE
// /v2/messages.
type liveMessages struct {
	placeFilters   `kong:"set='things=Messages'"`
	messageFilters `kong:"set='things=Messages',set='made=Messages published',set='timed=Messages published'"`
}

func (liveMessages) cancellation() cancellation {
	return cancellation{"message", pathMessages, "messageIds", "500", "not known, ended, cancelled before, or of a run"}
}

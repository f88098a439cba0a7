package cli

import (
	"cmp"
	"net/http"
	"strconv"

	"posthaste/internal/client"
)

// queuesCommand is about queues.
type queuesCommand struct {
	List   listThings[queues]   `cmd:"" help:"List queues."`
	Show   showThing[queues]    `cmd:"" set:"idhelp=Name of a queue." help:"Show a queue."`
	Set    setQueueCommand      `cmd:"" help:"Create a queue, or change its parallelism."`
	Pause  changeThings[queues] `cmd:"" set:"thing=queue" help:"Pause queues: they accept messages but deliver none."`
	Resume changeThings[queues] `cmd:"" set:"thing=queue" help:"Resume paused queues."`
	Delete deleteThings[queues] `cmd:"" set:"thing=queue" help:"Delete queues and cancel their messages."`
}

type queues struct{}

// listedQueue is what is shown of a queue.
type listedQueue struct {
	Name        string `json:"name"`
	Parallelism int    `json:"parallelism"`
	Paused      bool   `json:"paused"`
	Lag         int    `json:"lag"`
	CreatedAt   int64  `json:"createdAt"` // Unix ms
	UpdatedAt   int64  `json:"updatedAt"` // Unix ms
}

func (queues) kind() kind {
	return kind{
		thing: "queue", command: "queues", paths: []string{"/v2/queues"}, list: "queues", id: "name",
		table: tableOf(columns{{"STATE", 6}, {"PARALLELISM", 11}, {"WAITING", 8}, {name: "QUEUE"}}, func(q listedQueue) []cell {
			return []cell{paused(q.Paused), number(q.Parallelism), number(q.Lag), {text: q.Name}}
		}),
		print: fieldsOf(func(q listedQueue) []field {
			return []field{
				{"queue", q.Name}, {"state", paused(q.Paused).text},
				{"parallelism", strconv.Itoa(q.Parallelism)}, {"waiting", strconv.Itoa(q.Lag)},
				{"created", at(q.CreatedAt).text}, {"changed", at(q.UpdatedAt).text},
			}
		}),
	}
}

// paused returns the cell of what can be paused.
func paused(is bool) cell {
	if is {
		return cell{text: "paused", colour: waiting}
	}
	return cell{text: "active", colour: good}
}

func number(n int) cell { return cell{text: strconv.Itoa(n)} }

// setQueueCommand creates or changes a queue.
type setQueueCommand struct {
	Name        string `arg:"" help:"Name of the queue."`
	Parallelism *int   `env:"-" placeholder:"N" help:"Deliveries at once. Default: 1 for a new queue, unchanged for an existing one."`
	oneOutput
	connection
}

// Validate returns a sentence about the first setting that is wrong.
func (c *setQueueCommand) Validate() error {
	return cmp.Or(atLeastOne("parallelism", c.Parallelism), c.connection.Validate())
}

// Run sets the queue.
func (c *setQueueCommand) Run(t terminal) error {
	return c.setThing(t, c.Output, "queue", c.Name, putQueue(c.Name, value(c.Parallelism)))
}

func putQueue(name string, parallelism int) client.Request {
	body := map[string]any{"queueName": name}
	if parallelism != 0 {
		body["parallelism"] = parallelism
	}
	return client.Request{Method: http.MethodPost, Path: "/v2/queues", Body: body}
}

package cli

import (
	"cmp"
	"context"
	"net"
	"os"
	"strings"
	"time"

	"posthaste/internal/client"
)

// healthCommand asks a server whether it is ready, for health checks of containers.
type healthCommand struct {
	URL     string `env:"-" placeholder:"URL" help:"URL of the server. Default: $$POSTHASTE_URL, $$QSTASH_URL, the port in $$POSTHASTE_LISTEN, or http://127.0.0.1:8080."`
	Timeout span   `env:"-" default:"5s" help:"How long the server may take to respond."`
	oneOutput
}

// server returns the server that is asked: the one in the same container, unless another one
// is named. There are no profiles, and no token is sent.
func (c *healthCommand) server() client.Server {
	url := cmp.Or(c.URL, os.Getenv("POSTHASTE_URL"), os.Getenv("QSTASH_URL"))
	listen, _, _ := strings.Cut(os.Getenv("POSTHASTE_LISTEN"), ",")
	if host, port, err := net.SplitHostPort(listen); url == "" && err == nil {
		if address := net.ParseIP(host); host == "" || address != nil && address.IsUnspecified() {
			host = "127.0.0.1"
		}
		url = "http://" + net.JoinHostPort(host, port)
	}
	return client.Server{URL: cmp.Or(url, developmentServer.URL)}
}

// Validate returns a sentence about the first setting that is wrong.
func (c *healthCommand) Validate() error {
	_, err := client.New(client.Options{Server: c.server()})
	return err
}

// Run asks the server, and fails unless it is ready.
func (c *healthCommand) Run(t terminal) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(c.Timeout))
	defer cancel()
	server, err := client.New(client.Options{Server: c.server()})
	if err != nil {
		return err
	}
	if err := server.Do(ctx, client.Request{Path: "/v2/readiness"}, nil); err != nil {
		return err
	}
	return writeResult(t, c.Output, map[string]bool{"ready": true}, "ready")
}

package e2e

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"posthaste/internal/store/postgres/pgtest"
)

// devUsers are the users of every development server.
var devUsers = []struct{ name, password, token, current, next string }{
	{"defaultUser", "defaultPassword", devToken, "sig_7kYjw48mhY7kAjqNGcy6cr29RJ6r", "sig_5ZB6DVzB1wjE8S6rZ7eenA8Pdnhs"},
	{
		"testUser1", "testPassword", "eyJVc2VySUQiOiJ0ZXN0VXNlcjEiLCJQYXNzd29yZCI6InRlc3RQYXNzd29yZCJ9",
		"sig_7GVPjvuwsfqF65iC8fSrs1dfYruM", "sig_5NoELc3EFnZn4DVS5bDs2Nk4b7Ua",
	},
	{
		"testUser2", "testPassword", "eyJVc2VySUQiOiJ0ZXN0VXNlcjIiLCJQYXNzd29yZCI6InRlc3RQYXNzd29yZCJ9",
		"sig_6jWGaWRxHsw4vMSPJprXadyvrybF", "sig_7qHbvhmahe5GwfePDiS5Lg3pi6Qx",
	},
	{
		"testUser3", "testPassword", "eyJVc2VySUQiOiJ0ZXN0VXNlcjMiLCJQYXNzd29yZCI6InRlc3RQYXNzd29yZCJ9",
		"sig_5T8FcSsynBjn9mMLBsXhpacRovJf", "sig_7GFR4YaDshFcqsxWRZpRB161jguD",
	},
}

// TestDevUsers checks that a development server has the users that SDKs expect,
// with their keys, each with a token that may only read, and what one does is not
// seen by the others (contract, messages 8 and decision 24).
func TestDevUsers(t *testing.T) {
	t.Parallel()
	_, anyone := startDev(t, "--port", "0")
	for _, user := range devUsers {
		t.Run(user.name, func(t *testing.T) {
			c := anyone.as(user.token)
			current, next, err := c.keys(t.Context())
			if err != nil || current != user.current || next != user.next {
				t.Errorf("keys %q and %q, %v; want %q and %q", current, next, err, user.current, user.next)
			}
			id, err := c.publish(t.Context(), "http://127.0.0.1:1", map[string]string{"Upstash-Delay": "1h"}, "")
			if err != nil {
				t.Fatal(err)
			}
			wantStatus(t, http.StatusOK, c.read(t.Context(), id))

			reader := anyone.as(base64.StdEncoding.EncodeToString(
				fmt.Appendf(nil, `{"UserID":%q,"Password":%q,"ReadOnly":true}`, user.name, user.password)))
			wantStatus(t, http.StatusOK, reader.read(t.Context(), id))
			wantStatus(t, http.StatusForbidden, reader.cancel(t.Context(), id))

			for _, other := range devUsers {
				if other.name != user.name {
					wantStatus(t, http.StatusNotFound, anyone.as(other.token).read(t.Context(), id))
				}
			}
		})
	}
}

// read reads a message.
func (c *client) read(ctx context.Context, messageID string) error {
	return c.call(ctx, http.MethodGet, "/v2/messages/"+messageID, nil, "", nil)
}

// wantStatus compares the status of a call that ended with the error.
func wantStatus(t *testing.T, want int, err error) {
	t.Helper()
	got := http.StatusOK
	if refused := (*statusError)(nil); errors.As(err, &refused) {
		got = refused.status
	} else if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("status %d, want %d: %v", got, want, err)
	}
}

// TestDevAddresses checks how a development server can be reached: by the API at
// both ports and in both families of addresses, by probes without a token, and by
// a console in a browser (contract, messages 8, U-68, U-69 and U-87).
func TestDevAddresses(t *testing.T) {
	onceOnly(t)
	t.Parallel()
	logPort := freePort(t)
	_, c := startDev(t, "--port", "0", "--log-port", logPort)
	port := c.base[strings.LastIndexByte(c.base, ':')+1:]
	tests := map[string]string{
		"IPv4":               "127.0.0.1:" + port,
		"IPv6":               "[::1]:" + port,
		"by name":            "localhost:" + port,
		"IPv4, port of logs": "127.0.0.1:" + logPort,
		"IPv6, port of logs": "[::1]:" + logPort,
	}
	for name, address := range tests {
		t.Run(name, func(t *testing.T) {
			if strings.HasPrefix(address, "[") {
				needIPv6(t)
			}
			here := newClient("http://"+address, devToken)
			for _, path := range []string{"/v2/keys", "/v2/logs", "/v2/events"} {
				wantStatus(t, http.StatusOK, here.call(t.Context(), http.MethodGet, path, nil, "", nil))
			}
			for _, path := range []string{"/healthz", "/readyz"} {
				wantStatus(t, http.StatusOK, here.as("").call(t.Context(), http.MethodGet, path, nil, "", nil))
			}
			checkPreflight(t, here)
		})
	}
}

// checkPreflight asks as a browser does before a page may call the API.
func checkPreflight(t *testing.T, c *client) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodOptions, c.base+"/v2/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Origin", "https://console.example")
	request.Header.Set("Access-Control-Request-Method", http.MethodGet)
	request.Header.Set("Access-Control-Request-Headers", "authorization")
	response, err := c.http.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	origin, headers := response.Header.Get("Access-Control-Allow-Origin"), response.Header.Get("Access-Control-Allow-Headers")
	if response.StatusCode/100 != 2 || origin != "*" || headers != "authorization" {
		t.Errorf("preflight: %d, allowed origin %q, allowed headers %q", response.StatusCode, origin, headers)
	}
}

// freePort returns a port that nobody listens on.
func freePort(t *testing.T) string {
	t.Helper()
	port, err := pgtest.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(port)
}

// needIPv6 skips a test on a machine without IPv6.
func needIPv6(t *testing.T) {
	t.Helper()
	listener, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skipf("no IPv6 here: %v", err)
	}
	_ = listener.Close()
}

package cli

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"

	"posthaste"
)

// listen binds an address, HOST:PORT or :PORT. When it is taken, the error ends
// with the port, from which the SDKs that start the development server learn
// which one it was.
func listen(address string) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, &inUseError{address}
	case err != nil:
		return nil, fmt.Errorf("listen: %w", err)
	}
	return listener, nil
}

// checkAddresses returns an error unless each text is HOST:PORT or :PORT.
func checkAddresses(addresses []string) error {
	for _, address := range addresses {
		_, port, err := net.SplitHostPort(address)
		if err == nil {
			_, err = net.LookupPort("tcp", port)
		}
		if err != nil {
			return posthaste.Invalidf("listen %q is not an address: give HOST:PORT, or :PORT for all addresses of this machine", address)
		}
	}
	return nil
}

// listenAll binds several addresses, or none.
func listenAll(addresses []string) ([]net.Listener, error) {
	var listeners []net.Listener
	for _, address := range addresses {
		listener, err := listen(address)
		if err != nil {
			closeAll(listeners)
			return nil, err
		}
		listeners = append(listeners, listener)
	}
	return listeners, nil
}

// listenLoopback binds a port of this machine's own addresses. One of IPv6 is
// left out where there is none. Port 0 picks a free one.
func listenLoopback(port int) ([]net.Listener, error) {
	v4, err := listen(net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, err
	}
	v6, err := listen(net.JoinHostPort("::1", strconv.Itoa(portOf(v4))))
	switch {
	case err == nil:
		return []net.Listener{v4, v6}, nil
	case errors.Is(err, syscall.EADDRNOTAVAIL), errors.Is(err, syscall.EAFNOSUPPORT):
		return []net.Listener{v4}, nil
	default:
		v4.Close()
		return nil, err
	}
}

func portOf(listener net.Listener) int { return listener.Addr().(*net.TCPAddr).Port }

func closeAll(listeners []net.Listener) {
	for _, listener := range listeners {
		listener.Close()
	}
}

// inUseError says that another program listens on an address.
type inUseError struct{ address string }

// Error ends with a colon and the port.
func (e *inUseError) Error() string { return "address already in use: " + e.address }

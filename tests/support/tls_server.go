// One TLS connection of Go's crypto/tls: says bytes, each of which must come back XOR 0xff.
//
// Outside a module Go takes the defaults of an old version, which offers no X25519MLKEM768.

//go:debug tlsmlkem=1
package main

import (
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	chain := flag.String("chain", "", "file with the certificates, the server's own first")
	key := flag.String("key", "", "file with its private key")
	size := flag.Int("size", 0, "bytes to say")
	retry := flag.Bool("retry", false, "P-256 alone: a client without a share of it is asked again")
	hybrid := flag.Bool("hybrid", false, "X25519MLKEM768 alone: a client that offers it is asked for a share")
	request := flag.Bool("request", false, "ask for a certificate of the client")
	flag.Parse()
	if err := serve(*chain, *key, *size, *retry, *hybrid, *request); err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

func serve(chain, key string, size int, retry, hybrid, request bool) error {
	pair, err := tls.LoadX509KeyPair(chain, key)
	if err != nil {
		return err
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"http/1.1"}}
	if retry {
		config.CurvePreferences = []tls.CurveID{tls.CurveP256}
	}
	if hybrid {
		config.CurvePreferences = []tls.CurveID{tls.X25519MLKEM768}
	}
	if request {
		config.ClientAuth = tls.RequestClientCert
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		return err
	}
	accepted, err := listener.Accept()
	if err != nil {
		return err
	}
	connection := accepted.(*tls.Conn)
	if err := connection.Handshake(); err != nil {
		return err
	}
	said := make([]byte, size)
	for n := range said {
		said[n] = byte(n * 7 >> 3)
	}
	go connection.Write(said)
	heard := make([]byte, size)
	if _, err := io.ReadFull(connection, heard); err != nil {
		return err
	}
	for n := range said {
		if heard[n] != said[n]^0xff {
			return fmt.Errorf("byte %d came back as %#x, not %#x", n, heard[n], said[n]^0xff)
		}
	}
	state := connection.ConnectionState()
	if err := connection.Close(); err != nil {
		return err
	}
	fmt.Printf("ok name=%s alpn=%s suite=%s group=%s retry=%t certificates=%d\n", state.ServerName,
		state.NegotiatedProtocol, tls.CipherSuiteName(state.CipherSuite), state.CurveID,
		state.HelloRetryRequest, len(state.PeerCertificates))
	return nil
}

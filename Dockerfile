# One static program in an empty image: docker build -t posthaste .
FROM --platform=$BUILDPLATFORM golang:1.26-alpine AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG TARGETOS TARGETARCH
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -ldflags "-s -w" -o /out/posthaste ./cmd/posthaste \
    && mkdir /out/data

# The image contains public CA certificates; time zones are in the program. Only the server's
# user can read the data.
FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build --chown=65532:65532 --chmod=0700 /out/data /data
COPY --from=build /out/posthaste /posthaste
USER 65532:65532
VOLUME /data
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s CMD ["/posthaste", "health"]
ENTRYPOINT ["/posthaste"]
CMD ["serve", "--data", "/data"]

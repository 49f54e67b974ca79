# docker build -t lockstep . && docker run --rm -p 7546:7546 --env-file .env lockstep
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=$VERSION" -o /lockstep ./cmd/lockstep

# Nothing but the program and the certificates with which it checks its upstreams.
FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /lockstep /lockstep
USER 65532:65532
EXPOSE 7546 8546
ENTRYPOINT ["/lockstep"]
CMD ["serve"]

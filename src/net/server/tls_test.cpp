// The server's side of TLS against OpenSSL's client, both in memory: pieces of any size, what is no TLS, changed files.
#include "net/server/tls.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "testing/data.h"

namespace espalier::net {
namespace tls_test {

std::string pem_of(BIO* bio) {
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio, &text);
  std::string pem(text, static_cast<std::size_t>(size));
  BIO_free(bio);
  return pem;
}

// A folder with a self-signed certificate and its key, both new at every write.
struct Certificate {
  std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("espalier_tls_" + std::to_string(::getpid()));
  TlsFiles files{folder / "cert.pem", folder / "key.pem", ""};

  Certificate() {
    std::filesystem::create_directories(folder);
    write("first");
  }
  ~Certificate() { std::filesystem::remove_all(folder); }

  void write(const char* name, const char* password = nullptr) const {
    EVP_PKEY* key = EVP_EC_gen("P-256");
    X509* certificate = X509_new();
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_set_pubkey(certificate, key);
    X509_NAME* subject = X509_get_subject_name(certificate);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>(name), -1, -1, 0);
    X509_set_issuer_name(certificate, subject);
    X509_sign(certificate, key, EVP_sha256());
    BIO* out = BIO_new(BIO_s_mem());
    PEM_write_bio_X509(out, certificate);
    std::ofstream(files.certificate) << pem_of(out);
    out = BIO_new(BIO_s_mem());
    PEM_write_bio_PrivateKey(out, key, password == nullptr ? nullptr : EVP_aes_128_cbc(), nullptr, 0, nullptr,
                             const_cast<char*>(password));
    std::ofstream(files.key) << pem_of(out);
    X509_free(certificate);
    EVP_PKEY_free(key);
  }
};

// OpenSSL's client in memory.
class Client {
 public:
  Client() {
    SSL_set_bio(ssl_, in_, out_);
    SSL_set_connect_state(ssl_);
  }
  ~Client() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
  }
  void say(const std::string& plain) {
    if (SSL_is_init_finished(ssl_) == 1)
      SSL_write(ssl_, plain.data(), static_cast<int>(plain.size()));
    else
      wanted_ += plain;
  }
  void close() { SSL_shutdown(ssl_); }
  void take(const std::string& bytes) {
    if (!bytes.empty()) BIO_write(in_, bytes.data(), static_cast<int>(bytes.size()));
    if (SSL_do_handshake(ssl_) == 1 && !wanted_.empty()) {
      const std::string wanted = std::exchange(wanted_, {});
      SSL_write(ssl_, wanted.data(), static_cast<int>(wanted.size()));
    }
    char piece[4096];
    for (int n = 0; (n = SSL_read(ssl_, piece, sizeof piece)) > 0;) heard.append(piece, static_cast<std::size_t>(n));
  }
  std::string output() {
    std::string bytes(BIO_ctrl_pending(out_), '\0');
    if (!bytes.empty()) BIO_read(out_, bytes.data(), static_cast<int>(bytes.size()));
    return bytes;
  }
  bool told_end() const { return (SSL_get_shutdown(ssl_) & SSL_RECEIVED_SHUTDOWN) != 0; }
  std::string server_name() const {
    X509* certificate = SSL_get1_peer_certificate(ssl_);
    char name[64] = "";
    if (certificate != nullptr)
      X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name, sizeof name);
    X509_free(certificate);
    return name;
  }

  std::string heard;

 private:
  SSL_CTX* context_ = SSL_CTX_new(TLS_client_method());
  SSL* ssl_ = SSL_new(context_);
  BIO *in_ = BIO_new(BIO_s_mem()), *out_ = BIO_new(BIO_s_mem());
  std::string wanted_;
};

// Carries bytes both ways in pieces of random size until nobody has more to say.
void carry(Client& client, TlsSession& session, std::string& plain, std::mt19937_64& random) {
  client.take("");
  for (int quiet = 0; quiet < 2;) {
    std::string up = client.output();
    for (std::size_t at = 0; at < up.size();) {
      const std::size_t size = std::min<std::size_t>(up.size() - at, 1 + random() % 700);
      session.received(std::string_view(up).substr(at, size), plain);
      at += size;
    }
    const std::string down = session.output();
    client.take(down);
    quiet = up.empty() && down.empty() ? quiet + 1 : 0;
  }
}

TEST(TlsSession, WhatIsSentArrivesWhateverThePiecesAre) {
  const Certificate certificate;
  const auto context = TlsContext::make(certificate.files);
  ASSERT_TRUE(context.ok()) << context.error().message;
  std::mt19937_64 random(testing::seed());
  for (int round = 0; round < 20; ++round) {
    const auto session = (*context)->session();
    Client client;
    std::string plain, up(random() % 100'000, 'u'), down(random() % 100'000, 'd');
    client.say(up);
    session->send(down);  // before the handshake: it waits
    EXPECT_EQ(session->waiting(), down.size());
    carry(client, *session, plain, random);
    session->send("more");
    carry(client, *session, plain, random);
    EXPECT_EQ(plain, up) << testing::seed();
    EXPECT_EQ(client.heard, down + "more");
    EXPECT_EQ(session->waiting(), 0u);
    client.close();
    carry(client, *session, plain, random);
    EXPECT_TRUE(session->peer_closed());
    session->send("still");  // the client only said that it sends no more
    session->close();
    carry(client, *session, plain, random);
    EXPECT_EQ(client.heard, down + "morestill");
    EXPECT_TRUE(client.told_end());
    EXPECT_FALSE(session->broken());
  }
}

TEST(TlsSession, WhatIsNoTlsBreaksTheSessionAndNothingElse) {
  const Certificate certificate;
  const auto context = TlsContext::make(certificate.files);
  ASSERT_TRUE(context.ok());
  std::mt19937_64 random(testing::seed());
  for (int round = 0; round < 200; ++round) {
    const auto session = (*context)->session();
    std::string bytes = "GET / HTTP/1.1\r\nHost: a\r\n\r\n", plain;
    if (round > 0) {  // or a client's first words, damaged
      Client client;
      client.take("");
      bytes = client.output();
      for (int i = 0; i < 3; ++i) bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    session->received(bytes, plain);
    EXPECT_EQ(plain, "");
    EXPECT_TRUE(round > 0 || session->broken());
  }
}

TEST(TlsContext, ChangedFilesAreForNewConnectionsAndBrokenOnesForNobody) {
  const Certificate certificate;
  const auto context = TlsContext::make(certificate.files);
  ASSERT_TRUE(context.ok());
  std::mt19937_64 random(1);
  const auto seen = [&] {
    const auto session = (*context)->session();
    Client client;
    std::string plain;
    carry(client, *session, plain, random);
    return client.server_name();
  };
  EXPECT_EQ(seen(), "first");
  certificate.write("second");
  ASSERT_TRUE((*context)->reload().ok());
  EXPECT_EQ(seen(), "second");
  std::ofstream(certificate.files.certificate) << "nothing";
  const auto failed = (*context)->reload();
  EXPECT_EQ(failed.error().field, "ssl-certfile");
  EXPECT_EQ(seen(), "second");
}

TEST(TlsContext, FilesThatDoNotFitAreRefusedByTheirFlag) {
  const Certificate certificate;
  const auto refused = [](const TlsFiles& files) { return TlsContext::make(files).error().field; };
  TlsFiles files = certificate.files;
  files.key = files.certificate;
  EXPECT_EQ(refused(files), "ssl-keyfile");
  files.key = "/nowhere";
  EXPECT_EQ(refused(files), "ssl-keyfile");
  files = certificate.files;
  files.certificate = "/nowhere";
  EXPECT_EQ(refused(files), "ssl-certfile");
  const std::string other_key = [&] {
    std::ifstream in(certificate.files.key);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }();
  certificate.write("new");
  std::ofstream(certificate.files.key) << other_key;
  EXPECT_EQ(refused(certificate.files), "ssl-keyfile") << "the key of another certificate";
  certificate.write("locked", "open sesame");
  EXPECT_EQ(refused(certificate.files), "ssl-keyfile");
  files = certificate.files;
  files.password = "open sesame";
  EXPECT_TRUE(TlsContext::make(files).ok());
}

}  // namespace tls_test
}  // namespace espalier::net
